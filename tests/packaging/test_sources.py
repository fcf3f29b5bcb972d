"""What a project's own tool knows of its dependencies travels with the trainer, or is refused or named."""

from __future__ import annotations

import tarfile

import pytest
from image_trees import contents, plan, wheel

from vtrain.errors import PackagingError
from vtrain.packaging.archive import read_metadata, requirements_beside
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.uv_program import known_indexes

BUILD = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'


def project(name, *dependencies, more="", version="0.1.0"):
    listed = ", ".join(f'"{line}"' for line in dependencies)
    return f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = [{listed}]\n{more}\n'


def library(folder, name, *dependencies, more="", version="0.1.0"):
    module = name.replace("-", "_")
    return {
        f"{folder}/pyproject.toml": BUILD + project(name, *dependencies, more=more, version=version),
        f"{folder}/src/{module}/__init__.py": "MINE = 'mine'\n",
    }


def app(*dependencies, sources="", more="", build=BUILD, folder="app"):
    table = f"[tool.uv.sources]\n{sources}\n" if sources else ""
    return {
        f"{folder}/pyproject.toml": build + project("app", *dependencies, more=more + table),
        f"{folder}/src/app/__init__.py": "",
        f"{folder}/src/app/task.py": "import six\n",
        f"{folder}/train.py": "import six\n",
    }


def module(top, folder="app", **given):
    source = TrainerSource(folder=top / folder, **{"python_module": "app.task", **given})
    return plan_sdist(source, provided=frozenset(["six"]))


FORMS = [
    {"python_module": "app.task"},
    {"python_module": "", "script": "train.py"},
]


@pytest.mark.child
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "said",
    [
        'six = { path = "../six" }',
        'six = { path = "../six", editable = true }',
        'six = { path = "../six", marker = "sys_platform == \'linux\'" }',
        'six = [{ path = "../no", marker = "sys_platform == \'win32\'" }, { path = "../six" }]',
        'SIX = { path = "../six" }',
    ],
)
def test_a_project_in_another_folder_is_built_and_goes_beside_the_trainer(make_tree, tmp_path, said, form):
    top = make_tree({**app("six", sources=said), **library("six", "six")})
    planned = module(top, **form)
    (local,) = planned.local
    assert planned.file_names[0] == local.file_name == f"six-{local.content_hash[:16]}.tar.gz"
    built = build_sdist(planned, tmp_path / "packages")
    assert [path.name for path in built.install_order] == list(planned.file_names)
    assert read_metadata(built.install_order[0]).name == "six"
    with tarfile.open(built.install_order[0]) as sdist:
        assert any(name.endswith("/src/six/__init__.py") for name in sdist.getnames())
    (top / "six/src/six/__init__.py").write_text("MINE = 'changed'\n")
    assert module(top, **form).content_hash != planned.content_hash


def test_projects_that_others_need_are_installed_first(make_tree):
    tree = app("kit", sources='kit = { path = "../kit" }')
    tree |= library("kit", "kit", "base-kit", more='[tool.uv.sources]\nbase_kit = { path = "../base" }')
    tree |= library("base", "base-kit", "kit", more='[tool.uv.sources]\nkit = { path = "../kit" }')
    assert [local.name for local in module(make_tree(tree)).local] == ["base-kit", "kit"]


@pytest.mark.child
def test_members_of_a_workspace_are_built(make_tree, tmp_path):
    root = '[tool.uv.workspace]\nmembers = ["packages/*"]\nexclude = ["packages/old"]\n'
    root += "[tool.uv.sources]\nsix = { workspace = true }\n"
    tree = {"pyproject.toml": project("root", more=root), "packages/notes/readme.md": ""}
    tree |= app("six", "kit", folder="packages/app") | library("packages/six", "six")
    tree |= library("packages/kit", "kit") | library("packages/old", "tabulate")
    planned = module(make_tree(tree), folder="packages/app")
    assert sorted(local.name for local in planned.local) == ["kit", "six"]
    assert len(build_sdist(planned, tmp_path / "packages").install_order) == 3


def test_a_wheel_of_the_tool_is_an_extra_package(make_tree):
    tree = app("kit", sources='kit = { path = "../kit-1-py3-none-any.whl" }')
    planned = module(make_tree({**tree, "kit-1-py3-none-any.whl": wheel("kit")}))
    assert planned.file_names[0] == "kit-1-py3-none-any.whl"


def test_an_image_has_the_project_and_never_the_one_of_the_index(make_tree):
    tree = app("six[fast]>=0", "idna", sources='six = { path = "../six" }') | library("six", "six", "attrs")
    made = plan(make_tree(tree) / "app", python_module="app.task")
    files = contents(made)
    assert files["packages/six/src/six/__init__.py"] == "MINE = 'mine'\n"
    assert files["packages/.requirements.txt"] == "six[fast]>=0\n"
    assert files["dependencies/requirements.txt"] == "idna\n"
    assert "/opt/vtrain/packages/* -r /opt/vtrain/packages/.requirements.txt" in made.dockerfile


GIT = "https://example.com/six.git"
REFUSED = [
    (f'six = {{ git = "{GIT}" }}', "", r"takes six from git = '"),
    ('six = { url = "https://me:pw@example.com/six-1.zip" }', "", r"url = 'https://example\.com/six-1\.zip'"),
    ('six = { index = "corp" }', '[[tool.uv.index]]\nname = "corp"\nurl = "https://corp.example/simple"\n'
     "explicit = true\n", r"takes six from the index corp, https://corp\.example/simple"),
    ("six = { workspace = true }", "", "from a workspace, and none has it"),
    ('six = { path = "../none" }', "", r"takes six from \.\./none, which is not there"),
    ('six = { path = "../empty" }', "", r"takes six from \.\./empty, which holds no project"),
    ('six = { path = "../six", package = false }', "", "no package"),
    ("", '[[tool.uv.index]]\nurl = "https://corp.example/simple"\n', r"tool\.uv\.index names an index, "),
    ("", '[tool.uv]\nextra-index-url = ["https://corp.example/simple"]\n', r"tool\.uv\.extra-index-url"),
    ("", "[tool.uv]\nindex-url = 3\n", r"tool\.uv\.index-url names an index, 3,"),
    ("", '[[tool.poetry.source]]\nname = "corp"\nurl = "https://corp.example"\n', r"tool\.poetry\.source"),
    ("", '[[tool.pdm.source]]\nname = "corp"\nurl = "https://corp.example"\n', r"tool\.pdm\.source"),
    ("", '[tool.poetry.dependencies]\nsix = { path = "../six" }\n', r"takes six from \.\./six"),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("sources", "more", "words"), REFUSED)
def test_what_a_package_cannot_carry_is_refused(make_tree, form, sources, more, words):
    top = make_tree({**app("six", sources=sources, more=more), **library("six", "six"), "empty/x.txt": ""})
    with pytest.raises(PackagingError, match=words) as refusal:
        module(top, **form)
    assert refusal.value.message.startswith("pyproject.toml: ")
    with pytest.raises(PackagingError, match=words):
        plan(top / "app", **{name: value for name, value in form.items() if value})


@pytest.mark.parametrize(
    ("sources", "more", "words"), [each for each in REFUSED if "poetry.dep" not in each[1]]
)
def test_a_package_that_is_given_settles_it(make_tree, sources, more, words):
    top = make_tree({**app("six", sources=sources, more=more), **library("six", "six"), "empty/x.txt": "",
                     "app/six-1-py3-none-any.whl": wheel("six")})  # fmt: skip
    planned = module(top, extra_packages=("six-1-py3-none-any.whl",))
    assert planned.local == ()


@pytest.mark.parametrize(
    ("sources", "more"),
    [
        (f'other = {{ git = "{GIT}" }}', ""),
        (f'six = {{ git = "{GIT}", marker = "sys_platform == \'win32\'" }}', ""),
        (f'six = {{ git = "{GIT}", group = "dev" }}', '[dependency-groups]\ndev = ["six"]\n'),
        (f'six = {{ git = "{GIT}", extra = "gpu" }}', '[project.optional-dependencies]\ngpu = ["six"]\n'),
        ("", '[[tool.uv.index]]\nname = "x"\nurl = "https://corp.example"\nexplicit = true\n'),
        ("", '[[tool.uv.index]]\nname = "pypi"\nurl = "https://pypi.org/simple/"\ndefault = true\n'),
        ("", '[[tool.poetry.source]]\nname = "PyPI"\npriority = "primary"\n'),
    ],
)
def test_what_does_not_concern_the_dependencies_is_no_matter(make_tree, sources, more):
    assert module(make_tree(app("six", sources=sources, more=more))).warnings == ()


def test_an_index_that_pip_knows_where_it_trains_is_no_matter(make_tree):
    url = "https://me:secret@corp.example/simple/"
    more = '[[tool.uv.index]]\nname = "corp"\nurl = "https://corp.example/simple"\n'
    top = make_tree(app("six", sources='six = { index = "corp" }', more=more))
    source = TrainerSource(folder=top / "app", python_module="app.task")
    assert plan_sdist(source, provided=frozenset(["six"]), indexes=frozenset([url])).local == ()
    (top / "app/requirements.txt").write_text(f"--extra-index-url {url}\n")
    assert (
        "--extra-index-url"
        in contents(plan(top / "app", python_module="app.task"))["requirements/requirements.txt"]
    )


def test_an_environment_that_is_used_as_it_is_has_its_own_sources(make_tree):
    top = make_tree(app("six", sources=f'six = {{ git = "{GIT}" }}'))
    source = TrainerSource(folder=top / "app", python_module="app.task")
    assert plan_sdist(source, provided=None).warnings == ()


@pytest.mark.parametrize(
    ("more", "files", "sentence"),
    [
        ('[tool.uv]\nconstraint-dependencies = ["six<2"]\n', {}, "pyproject.toml: constraint-dependencies"),
        ('[tool.uv]\noverride-dependencies = ["six<2"]\n', {}, "pyproject.toml: override-dependencies"),
        ("", {"app/uv.lock": ""}, "uv.lock"),
        ("", {"app/poetry.lock": ""}, "poetry.lock"),
        ("", {"app/uv.toml": 'exclude-newer = "2024-01-01"\n'}, "uv.toml: exclude-newer"),
    ],
)
def test_what_selects_versions_is_named_and_refused_with_strict(make_tree, more, files, sentence):
    top = make_tree({**app("six", more=more), **files})
    (warning,) = module(top).warnings
    assert warning.startswith(f"{sentence} is ignored, a package's metadata has no place for it")
    with pytest.raises(PackagingError, match="is ignored"):
        plan_sdist(TrainerSource(folder=top / "app", python_module="app.task"), strict=True)


@pytest.mark.parametrize(
    "more",
    [
        "[tool.uv.workspace]\nmembers = 3\n",
        '[tool.uv.workspace]\nmembers = ["*"]\nexclude = 3\n',
        "[tool.uv]\nindex = 3\n",
        "[tool.uv]\nsources = 3\n",
        "[tool.pdm]\nsource = 3\n",
        "[tool.poetry]\nsource = 3\n[tool.poetry.dependencies]\nsix = { version = '*', source = 'corp' }\n",
    ],
)
def test_a_setting_of_another_type_names_no_source(make_tree, more):
    planned = module(make_tree(app("six", more=more)))
    assert (planned.local, planned.warnings) == ((), ())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a = ", "Invalid value"),
        (b"\xef\xbb\xbfa = 1", "byte-order mark"),
        (b"\xe9 = 1", "it is not UTF-8 text"),
        (b"a = " + b"[" * 3000 + b"]" * 3000, "nested too deeply"),
    ],
)
def test_a_uv_toml_that_is_not_toml_is_refused(make_tree, content, reason):
    with pytest.raises(PackagingError, match=f"^uv.toml in .*{reason}"):
        module(make_tree({**app("six"), "app/uv.toml": content}))


def test_a_lock_file_says_no_more_than_exact_requirements(make_tree):
    top = make_tree({**app("six"), "app/uv.lock": "", "app/requirements.txt": "six==1.16.0\n"})
    assert module(top).warnings == ()


@pytest.mark.child
@pytest.mark.parametrize("required", ["six>=2", "six==0.2.*"])
def test_a_version_that_is_not_the_required_one_is_refused(make_tree, tmp_path, required):
    top = make_tree({**app(required, sources='six = { path = "../six" }'), **library("six", "six")})
    with pytest.raises(PackagingError, match=r"is version 0\.1\.0: pip would take it from the index"):
        build_sdist(module(top), tmp_path / "packages")


def test_a_project_around_the_folder_that_is_broken_is_no_matter(make_tree):
    top = make_tree({**app("six"), "pyproject.toml": "workspace is no TOML"})
    assert module(top).warnings == ()


def test_links_do_not_lead_in_circles(make_tree):
    tree = app("six", sources='six = { path = "../link" }') | library("six", "six")
    top = make_tree(tree)
    (top / "link").symlink_to(top / "six")
    assert [local.name for local in module(top).local] == ["six"]


def test_extras_of_a_package_at_hand_are_what_it_names_for_them(tmp_path):
    text = (
        "Provides-Extra: gpu\nRequires-Dist: idna\nRequires-Dist: attrs>=20; extra == 'gpu'\n"
        "Requires-Dist: kit[more]; extra == 'gpu'\nRequires-Dist: six; extra == 'more'\n"
    )
    package = tmp_path / "kit-1-py3-none-any.whl"
    package.write_bytes(wheel("kit", metadata=text))
    found = requirements_beside(
        ["kit[gpu]>=1", "kit", "kit[dev]", "numpy", "kit[gpu]; extra == 'x'"], {"kit": package}
    )
    assert list(found) == ["numpy", "attrs>=20", "six"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "url", ["{root:uri}/../six", "file:///${PROJECT_ROOT}/../six", "file:///srv/six-1.zip"]
)
def test_a_dependency_on_a_path_is_refused(make_tree, form, url):
    with pytest.raises(PackagingError, match="is a path on this machine") as refusal:
        module(make_tree(app(f"six @ {url}")), **form)
    assert "extra-packages" in refusal.value.hint


def test_the_configuration_of_pip_and_uv_names_indexes(tmp_path):
    (tmp_path / "uv").mkdir()
    text = 'extra-index-url = ["https://a.example"]\n[[index]]\nname = "b"\nurl = "https://b.example"\n'
    (tmp_path / "uv/uv.toml").write_text(text)
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PIP_EXTRA_INDEX_URL": "https://c.example",
               "UV_INDEX": "d=https://d.example https://e.example"}  # fmt: skip
    assert {f"https://{name}.example" for name in "abcde"} <= known_indexes(environ)
