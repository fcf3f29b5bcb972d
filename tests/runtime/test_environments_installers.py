"""What pip's configuration means to uv, and what is said where uv fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from lib.environment_packages import direct_sdist, wheel

from vtrain.errors import ConfigError
from vtrain.pip_settings import read_pip_settings
from vtrain.runtime.environments.environment import EnvironmentSpec, make_environment, plan_environment
from vtrain.runtime.environments.installer import (
    LONGEST_LINE,
    Installation,
    Installer,
    InstallerFault,
    explain,
    explain_build,
    run_logged,
)
from vtrain.runtime.environments.interpreters import base_interpreter
from vtrain.runtime.environments.layers import EnvironmentFailed, ToolKilled
from vtrain.uv_program import UvOptions, find_uv, uv_options

pytestmark = pytest.mark.child


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """An environment in which pip has no configuration but what the test adds."""
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}


def trained(tmp_path: Path) -> str:
    """What a trainer prints that requires `left`, installed in an environment of its own."""
    package = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    planned = plan_environment(EnvironmentSpec(packages=(package,)), tmp_path / "home")
    made = make_environment(planned, [].append)
    argv = [made.python, "-m", "trainer.task"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def write_pip_conf(tmp_path: Path, *lines: str) -> None:
    file = tmp_path / ".config" / "pip" / "pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(["[global]", *lines, ""]))


def test_uv_is_found_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert subprocess.run([find_uv(), "--version"], check=True, capture_output=True).stdout.startswith(b"uv ")


def test_pips_file_tells_where_packages_are(
    tmp_path: Path, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "wheels", "left", "1.0")
    wheel(tmp_path / "wheels", "left", "2.0")
    (tmp_path / "bounds.txt").write_text("left<2\n")
    bounds = f"constraint = {tmp_path / 'bounds.txt'}"
    write_pip_conf(tmp_path, "no-index = true", f"find-links = {tmp_path / 'wheels'}", bounds)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path))
    assert trained(tmp_path) == "1.0\n"


def test_uvs_own_file_goes_before_pips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "of-pip", "left", "1.0")
    wheel(tmp_path / "of-uv", "left", "2.0")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "of-pip"))
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".config" / "uv" / "uv.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'no-index = true\nfind-links = ["{tmp_path / "of-uv"}"]\n')
    assert trained(tmp_path) == "2.0\n"


@pytest.mark.parametrize("setting", ["PIP_TARGET", "PIP_PREFIX"])
def test_what_uv_has_no_word_for_is_told(
    tmp_path: Path, setting: str, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "wheels", "left")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv(setting, "elsewhere")
    assert uv_options(offline | {setting: "elsewhere"}).ignored == (setting[4:].lower(),)
    assert trained(tmp_path) == "1.0\n"


def test_uv_without_pips_configuration_is_left_alone(offline: dict[str, str]) -> None:
    assert uv_options(offline) == UvOptions(variables=(("UV_HTTP_RETRIES", "2"),))
    assert uv_options(offline | {"UV_HTTP_RETRIES": "7"}) == UvOptions()


@pytest.mark.parametrize(
    ("settings", "flags", "variables"),
    [
        (
            {"PIP_EXTRA_INDEX_URL": "https://me:secret@a.test/simple \n https://b.test/simple"},
            ("--index-strategy=unsafe-best-match",),
            {"UV_INDEX": "https://me:secret@a.test/simple https://b.test/simple"},
        ),
        ({"PIP_INDEX_URL": "https://me:secret@a.test"}, (), {"UV_DEFAULT_INDEX": "https://me:secret@a.test"}),
        (
            {"PIP_FIND_LINKS": "https://me:secret@a.test/w"},
            (),
            {"UV_FIND_LINKS": "https://me:secret@a.test/w"},
        ),
        (
            {"PIP_TRUSTED_HOST": "a.test b.test:8"},
            ("--allow-insecure-host=a.test", "--allow-insecure-host=b.test:8"),
            {},
        ),
        ({"PIP_ONLY_BINARY": "left,right"}, ("--only-binary=left", "--only-binary=right"), {}),
        ({"PIP_NO_BINARY": ":all:"}, ("--no-binary=:all:",), {}),
        ({"PIP_PRE": "0", "PIP_NO_INDEX": "yes"}, ("--no-index",), {}),
        (
            {"PIP_CERT": "/ca.pem", "PIP_CLIENT_CERT": "/me.pem"},
            (),
            {"SSL_CERT_FILE": "/ca.pem", "SSL_CLIENT_CERT": "/me.pem"},
        ),
        (
            {"PIP_DEFAULT_TIMEOUT": "7", "PIP_RETRIES": "5"},
            (),
            {"UV_HTTP_TIMEOUT": "7", "UV_HTTP_RETRIES": "5"},
        ),
        (
            {"PIP_PROXY": "me:secret@proxy.test:3128"},
            (),
            dict.fromkeys(
                ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://me:secret@proxy.test:3128"
            ),
        ),
    ],
)
def test_pips_settings_are_handed_to_uv(
    offline: dict[str, str], settings: dict[str, str], flags: tuple[str, ...], variables: dict[str, str]
) -> None:
    options = uv_options(offline | settings)
    assert options.flags == flags
    assert dict(options.variables) == {"UV_HTTP_RETRIES": "2"} | variables
    assert options.ignored == ()


def test_paths_are_those_of_the_folder_that_vtrain_runs_in(
    tmp_path: Path, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    given = {
        "PIP_CONSTRAINT": "a.txt https://a.test/b.txt",
        "PIP_FIND_LINKS": "~/wheels file:///w /x",
        "PIP_CERT": "my ca.pem",
    }
    options = uv_options(offline | given)
    assert options == uv_options(offline | given, str(tmp_path))
    assert f"--constraint={tmp_path}/job/a.txt" in uv_options(offline | given, str(tmp_path / "job")).flags
    assert dict(options.variables)["UV_FIND_LINKS"] == f"{tmp_path}/own/wheels,file:///w,/x"
    assert options.flags == (
        f"--constraint={tmp_path}/a.txt",
        "--constraint=https://a.test/b.txt",
    )
    assert dict(options.variables)["SSL_CERT_FILE"] == f"{tmp_path}/my ca.pem"


def test_a_folder_with_a_comma_holds_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "a,b", "left")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path}/none {tmp_path}/a,b")
    (tmp_path / "none").mkdir()
    assert trained(tmp_path) == "1.0\n"


def test_a_file_beside_the_trainer_binds_its_requirements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "left", version)
    (tmp_path / "bounds.txt").write_text("left<2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", "wheels")
    monkeypatch.setenv("PIP_CONSTRAINT", "bounds.txt")
    assert trained(tmp_path) == "1.0\n"


@pytest.mark.parametrize(
    "content", [b"[global\nindex-url = x\n", b"index-url = x\n", b"[global]\nx = \xff\n"]
)
def test_a_damaged_file_of_pips_is_no_reason_to_ask_another_index(
    tmp_path: Path, offline: dict[str, str], content: bytes
) -> None:
    file = tmp_path / "pip.conf"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(f"pip's configuration {file} cannot be read")):
        uv_options(offline | {"PIP_CONFIG_FILE": str(file)})


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_certificates_that_pip_would_trust_are_handed_to_uv(offline: dict[str, str], variable: str) -> None:
    given = offline | {variable: "/ca.pem"}
    assert dict(uv_options(given).variables)["SSL_CERT_FILE"] == "/ca.pem"
    assert dict(uv_options(given | {"PIP_CERT": "/pip.pem"}).variables)["SSL_CERT_FILE"] == "/pip.pem"
    assert dict(uv_options(given | {"SSL_CERT_FILE": "/own.pem"}).variables)["SSL_CERT_FILE"] == "/own.pem"


@pytest.mark.parametrize(
    ("own", "of_pip"),
    [
        (
            {"UV_DEFAULT_INDEX": "https://uv.test/simple"},
            {"PIP_INDEX_URL": "https://pip.test", "PIP_FIND_LINKS": "/w"},
        ),
        ({"UV_CONSTRAINT": "/mine.txt"}, {"PIP_CONSTRAINT": "/pips.txt"}),
        ({"UV_HTTP_TIMEOUT": "9"}, {"PIP_TIMEOUT": "5"}),
    ],
)
def test_uvs_own_variables_hold_for_their_subject(
    offline: dict[str, str], own: dict[str, str], of_pip: dict[str, str]
) -> None:
    assert uv_options(offline | own | of_pip) == uv_options(offline)
    assert uv_options(offline | own | of_pip | {"PIP_PRE": "1"}).flags == ("--prerelease=allow",)


def test_pips_files_are_read_in_pips_order(tmp_path: Path) -> None:
    write_pip_conf(
        tmp_path, "index-url = https://user.test", "timeout = 7", "[install]", "find_links = /wheels"
    )
    named = tmp_path / "named.conf"
    named.write_text("[global]\nindex-url = https://named.test\n")
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": str(named)}
    settings = read_pip_settings(environ | {"PIP_TIMEOUT": "9", "PIP_FIND_LINKS": ""})
    assert settings["index-url"] == "https://named.test"
    assert settings["timeout"] == "9"
    assert settings["find-links"] == "/wheels"


def test_a_full_disk_gets_its_own_advice(tmp_path: Path) -> None:
    line = "  cause: failed to write to file `x`: No space left on device (os error 28)"
    failed = explain(
        InstallerFault("uv", (line,)), Installation(environment=tmp_path, requirements=("left",))
    )
    assert failed.message.startswith("left cannot be installed: the disk is full.")
    assert failed.hint.startswith("Free some space")
    built = explain_build(InstallerFault("uv", (line,)), "trainer.tar.gz")
    assert built.message.startswith("The package trainer.tar.gz cannot be built: the disk is full.")
    assert built.hint == failed.hint


UNSOLVED = "  cause: Because {}, we can conclude that your requirements are unsatisfiable."


@pytest.mark.parametrize(
    ("line", "culprit"),
    [
        (
            UNSOLVED.format("left was not found in the package registry and you require left>=1,<2"),
            "left>=1,<2",
        ),
        (UNSOLVED.format("there is no version of left==99 and you require left==99"), "left==99"),
        (UNSOLVED.format("you require numpy<1 and numpy>2"), "numpy<1 and numpy>2"),
        ("error: Failed to parse: `bad==`", "bad=="),
        ("something else", "left, right"),
    ],
)
def test_the_requirement_is_named_that_failed(tmp_path: Path, line: str, culprit: str) -> None:
    installation = Installation(environment=tmp_path, requirements=("left", "right"))
    failed = explain(InstallerFault("uv", (line,)), installation)
    assert failed.message == f"{culprit} cannot be installed: uv failed.\n  {line}"
    is_elsewhere = "was not found" in line or "no version" in line
    assert failed.hint.startswith("If another index has it, set PIP_EXTRA_INDEX_URL=URL" if is_elsewhere
                                  else "Correct the requirement;")  # fmt: skip


@pytest.mark.parametrize("login", ["bob:s3cret", "s3cret"])
@pytest.mark.parametrize("rest", ["/left-1.0-py3-none-any.whl", ""])
def test_the_login_in_a_requirement_is_not_told(tmp_path: Path, login: str, rest: str) -> None:
    line = f"left[x] @ git+http://{login}@127.0.0.1:1{rest}"
    told: list[bytes] = []
    installation = Installation(environment=tmp_path / "made", requirements=(line,))
    failed = explain(InstallerFault("uv", (f"fetch {line}",)), installation)
    assert "s3cret" not in failed.message
    assert f"left[x] @ git+http://****@127.0.0.1:1{rest} cannot be installed" in failed.message
    venv.create(tmp_path / "made", symlinks=True)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(EnvironmentFailed):
        Installer(told.append, base_interpreter()).install(installation, descriptor)
    os.close(descriptor)
    assert told[0] == b"Installing left \xe2\x80\xa6\n"
    assert b"s3cret" not in b"".join(told)


def test_a_line_of_a_tool_without_an_end_is_told_in_pieces(tmp_path: Path) -> None:
    told: list[bytes] = []
    program = [sys.executable, "-c", "print('x' * 1_000_000, end='')"]
    descriptor = os.open(tmp_path, os.O_RDONLY)
    run_logged("it", program, dict(os.environ), tmp_path, told.append, descriptor)
    os.close(descriptor)
    assert sum(piece.count(b"x") for piece in told) == 1_000_000
    assert max(map(len, told)) < LONGEST_LINE + 100


def test_a_tool_keeps_the_lock_and_may_be_killed(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    program = f"import os; os.fstat({descriptor}); os.kill(os.getpid(), 9)"
    with pytest.raises(ToolKilled):  # and not InstallerFault: a job begins its preparation again
        run_logged("it", [sys.executable, "-c", program], dict(os.environ), tmp_path, print, descriptor)
    os.close(descriptor)


def test_a_build_that_failed_tells_its_reason_and_not_its_last_lines() -> None:
    wrapped = ("error: Failed to build `/s`", "  cause: Call to `x.build_wheel` failed (exit status: 1)")
    advice = [f"advice line {number}" for number in range(12)]
    lines = (
        "Traceback (most recent call last):",
        "  x",
        "RuntimeError: install libfoo first",
        *advice,
        *wrapped,
    )
    failed = explain_build(InstallerFault("uv", lines), "trainer.tar.gz")
    _, *shown = failed.message.splitlines()
    assert shown == [f"  {line}" for line in ("RuntimeError: install libfoo first", *advice)]


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            "ModuleNotFoundError: No module named 'numpy'",
            "Its build imports numpy: name what brings it in build-system",
        ),
        ("error: invalid command 'bdist_wheel'", "Correct its setup.py or pyproject.toml"),
        ("ERROR: connection refused", "need no index"),
    ],
)
def test_a_build_that_failed_gets_advice_for_its_cause(line: str, advice: str) -> None:
    failed = explain_build(InstallerFault("the build", ("Traceback", line)), "trainer.tar.gz")
    assert advice in failed.hint
    assert line in failed.message


def test_a_requirement_that_two_packages_name_is_told_once(
    tmp_path: Path, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("left", "right"):
        wheel(tmp_path / "wheels", name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    extras = direct_sdist(tmp_path, "", ("left",), name="extras")
    package = direct_sdist(tmp_path, "import left", ("left>=1", "right"))
    told: list[bytes] = []
    plan = plan_environment(EnvironmentSpec(packages=(extras, package)), tmp_path / "home")
    make_environment(plan, told.append)
    lines = [line.decode() for line in told if line.startswith(b"Installing ")]
    assert lines == ["Installing left …\n", "Installing right …\n"]
