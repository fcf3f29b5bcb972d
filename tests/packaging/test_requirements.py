"""Requirements as they can stand in metadata."""

from __future__ import annotations

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.requirements import read_requirements

TEXT = """\
# tools
six==1.0 \\
    --hash=sha256:abc
attrs>=20  # a comment
-r more.txt
-e .
--index-url https://example.com/simple
git+https://example.com/kit.git@v1#egg=kit
https://example.com/files/tool_x-1.2-py3-none-any.whl
six==1.0
"""


def test_requirements_txt(make_tree):
    folder = make_tree(
        {"requirements.txt": TEXT, "more.txt": "idna ; python_version>'3'\n-r requirements.txt\n"}
    )
    found = read_requirements(("numpy",), folder)
    assert found.lines == (
        "six==1.0",
        "attrs>=20",
        "idna ; python_version>'3'",
        "kit @ git+https://example.com/kit.git@v1",
        "tool_x @ https://example.com/files/tool_x-1.2-py3-none-any.whl",
        "numpy",
    )
    assert found.warnings == (
        "requirements.txt:2: --hash is ignored, a package's metadata has no place for it",
        "requirements.txt:7: --index-url is ignored, a package's metadata has no place for it",
    )


@pytest.mark.parametrize("line", ["a>1,<2", "a[z,b] >= 1", "a @ https://example.com/a.whl ; os_name=='nt'"])
def test_a_requirement_stays_as_it_is_written(make_tree, line):
    assert read_requirements((line,), make_tree({})).lines == (line,)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("six==", "is not a requirement"),
        ("./local", "is a path on this machine"),
        ("dist/kit-1.0.tar.gz", "is a path on this machine"),
        ("tabulate @ file:///croot/tabulate_17/work", "is a path on this machine"),
        ("file:///wheels/kit-1.0-py3-none-any.whl", "is a path on this machine"),
        ("kit @ git+file:///home/me/kit", "is a path on this machine"),
        ("git+file:///home/me/kit#egg=kit", "is a path on this machine"),
        ("kit @ ../kit", "is a path on this machine"),
        ("-e ../kit", "is a path on this machine"),
        ("git+https://example.com/kit.git", "does not say which distribution"),
        ("six\nattrs", "is not a requirement"),
        ("six==${SIX_VERSION}", r"\$\{SIX_VERSION\} is a variable, and metadata has none"),
        ("${PACKAGE}", r"\$\{PACKAGE\} is a variable"),
    ],
)
def test_what_metadata_cannot_carry_is_refused(make_tree, line, words):
    with pytest.raises(PackagingError, match=words):
        read_requirements((line,), make_tree({}))


@pytest.mark.parametrize(
    "line",
    ["kit @ git+https://${TOKEN}@example.com/kit.git", "git+https://${TOKEN}@example.com/kit.git#egg=kit"],
)
def test_a_variable_in_a_url_is_a_warning(make_tree, line):
    """pip replaces it in a requirements file, and not in a package's metadata, where uv does."""
    requirements = read_requirements((line,), make_tree({}))
    assert requirements.lines == ("kit @ git+https://${TOKEN}@example.com/kit.git",)
    [warning] = requirements.warnings
    assert warning.startswith("requirements: ${TOKEN} is replaced on this machine alone")


def test_a_nested_file_that_is_missing(make_tree):
    with pytest.raises(PackagingError, match=r"requirements\.txt:1: there is no file more\.txt"):
        read_requirements((), make_tree({"requirements.txt": "-r more.txt\n"}))
