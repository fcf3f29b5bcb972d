"""What a process replica gets of the caller's environment, and what it does not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from vtrain.errors import ConfigError
from vtrain.runtime.inheritance import inherited_environment

PROXIES = "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy".split()
HANDED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "LC_ALL", "LC_TIME"),
    *PROXIES,
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "XDG_CACHE_HOME", "HF_HOME"),
    *("TORCH_HOME", "OMP_NUM_THREADS", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES"),
)
KEPT_BACK = (
    *("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_AUTH_ACCESS_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"),
    *("CUDA_API_KEY", "NVIDIA_API_KEY", "LC_PASSWORD", "PYTHONPATH", "XPATH", "MY_HOME", "xLC_ALL", "path"),
)


def test_what_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name in (*HANDED_ON, *KEPT_BACK):
        monkeypatch.setenv(name, f"the caller's {name}")
    assert inherited_environment() == {name: f"the caller's {name}" for name in HANDED_ON}


def test_an_emulator_that_may_end_before_the_job_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "http://vtrain:secret@127.0.0.1:1")
    kept = inherited_environment()
    assert {"HTTP_PROXY", "NO_PROXY", "SSL_CERT_DIR"} <= set(kept)
    assert not {"HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE", "CURL_CA_BUNDLE"} & set(kept)


@pytest.mark.child
def test_a_variable_that_no_order_can_hold_is_named(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_TIME", "/\udcff")
    with pytest.raises(ConfigError, match=r"'LC_TIME', .* is not UTF-8: '/\\udcff'"):
        inherited_environment()
    (tmp_path / "task.py").touch()
    ran = vtrain(
        *("custom-jobs", "local-run", "--backend=process"),
        *(f"--local-package-path={tmp_path}", "--script=task.py"),
    )
    assert (ran.code, ran.err.count("LC_TIME"), "unexpectedly" in ran.err) == (125, 1, False)


@pytest.mark.child
def test_a_replica_has_path_home_and_proxies(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs beside the caller's are found, caches in its home too, and the network behind its proxy."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "own-tool").symlink_to(shutil.which("true") or "/bin/true")
    (tmp_path / "task.py").write_text(
        "import json, os, pathlib, shutil\n"
        "print(json.dumps([dict(os.environ), shutil.which('own-tool'), str(pathlib.Path.home())]))\n"
    )
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{tmp_path / 'bin'}")
    for number, name in enumerate(PROXIES):
        monkeypatch.setenv(name, f"http://127.0.0.1:{number + 1}")
    monkeypatch.setenv("MY_OWN", "1")
    monkeypatch.setenv("CUDA_API_KEY", "1")
    ended = vtrain(
        *("custom-jobs", "local-run", "--backend=process", "--quiet"),
        *(f"--local-package-path={tmp_path}", "--script=task.py"),
    )
    assert ended.code == 0, ended.err
    seen, tool, home = json.loads(ended.out)
    assert tool == str(tmp_path / "bin" / "own-tool") and home == os.environ["HOME"]
    assert {name: seen.get(name) for name in PROXIES} == {name: os.environ[name] for name in PROXIES}
    assert os.environ["PATH"] in seen["PATH"]
    assert not {"MY_OWN", "CUDA_API_KEY"} & seen.keys()
