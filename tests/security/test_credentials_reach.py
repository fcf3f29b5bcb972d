"""Credentials reach a trainer on this machine when that is asked for, as a copy that it cannot change."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from vtrain.messages.names import parse_name
from vtrain.runtime.inheritance import inherited_environment

pytestmark = pytest.mark.end_to_end

CREDENTIALS = '{"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}'
LEAKS = {
    "CLOUDSDK_AUTH_ACCESS_TOKEN": "t",
    "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": "/t",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_SESSION_TOKEN": "s",
    "HF_TOKEN": "h",
    "GITHUB_TOKEN": "g",
    "NVIDIA_API_KEY": "n",
    "CUDA_TOKEN": "c",
    "SSH_AUTH_SOCK": "/s",
    "DOCKER_AUTH_CONFIG": "{}",
}


@pytest.fixture
def signed_in(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The caller has Application Default Credentials, in both places where Google's libraries look."""
    monkeypatch.delenv("CLOUDSDK_CONFIG")
    file = own_home / ".config" / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text(CREDENTIALS)
    file.chmod(0o600)
    for name, value in LEAKS.items():
        monkeypatch.setenv(name, value)
    return file


def seen_by(vtrain: Any, trainer: Path, *words: str) -> tuple[dict[str, Any], str]:
    """What the trainer saw, and the job's name."""
    package = (f"--local-package-path={trainer}", "--python-module=trainer.task")
    command = ("custom-jobs", "create", "--display-name=a", "--backend=process", "--wait")
    made = vtrain(*command, *package, "--format=value(name)", *words)
    assert made.code == 0, made.err
    name = made.out.strip()
    log = vtrain("custom-jobs", "stream-logs", name, "--format=json", "--task-name=workerpool0-0")
    return json.loads(log.out)[0]["json"], name


@pytest.mark.parametrize("words", [(), ("--credentials=none",)])
def test_without_being_asked_a_trainer_is_given_none(
    vtrain: Any, trainer: Path, signed_in: Path, words: tuple[str, ...], vtrain_home: Path
) -> None:
    seen, name = seen_by(vtrain, trainer, *words)
    env = seen["env"]
    assert "GOOGLE_APPLICATION_CREDENTIALS" not in env and LEAKS.keys().isdisjoint(env)
    assert not Path(env["CLOUDSDK_CONFIG"]).exists() and env["NO_GCE_CHECK"] == "true"
    full = parse_name(name)
    assert full is not None
    assert CREDENTIALS not in (vtrain_home / "jobs" / full.id / "spec.json").read_text()


def test_google_s_library_finds_none(vtrain: Any, trainer: Path, signed_in: Path) -> None:
    auth = pytest.importorskip("google.auth", reason="needs the extra vertex")
    root = Path(auth.__file__).parents[2]
    code = (
        f"import sys; sys.path.append({str(root)!r}); import google.auth\n"
        "try: print(google.auth.default())\n"
        "except google.auth.exceptions.DefaultCredentialsError: print('none')\n"
    )
    (trainer / "trainer" / "task.py").write_text(code)
    command = ("custom-jobs", "local-run", f"--local-package-path={trainer}", "--python-module=trainer.task")
    assert vtrain(*command).out == "none\n"
    assert "google.oauth2.credentials.Credentials" in vtrain(*command, "--credentials=adc").out


@pytest.mark.parametrize("word", ["adc", "FILE"])
def test_a_trainer_is_given_a_copy_that_goes_with_the_job(
    vtrain: Any, trainer: Path, signed_in: Path, word: str
) -> None:
    chosen = str(signed_in) if word == "FILE" else word
    seen, _ = seen_by(vtrain, trainer, f"--credentials={chosen}")
    copy = Path(seen["env"]["GOOGLE_APPLICATION_CREDENTIALS"])
    assert (seen["credentials"], seen["mode"]) == (CREDENTIALS, "0o400")
    assert copy != signed_in and not copy.exists()
    assert signed_in.read_text() == CREDENTIALS
    assert LEAKS.keys().isdisjoint(seen["env"])


def test_gcloud_s_flag_of_local_run_works_without_containers(
    vtrain: Any, trainer: Path, signed_in: Path
) -> None:
    words = (f"--local-package-path={trainer}", "--python-module=trainer.task")
    ran = vtrain("custom-jobs", "local-run", *words, f"--service-account-key-file={signed_in}")
    assert ran.code == 0 and json.loads(ran.out)["credentials"] == CREDENTIALS
    assert "has no effect" not in ran.err


def test_credentials_that_are_not_there_start_nothing(vtrain: Any, trainer: Path, vtrain_home: Path) -> None:
    words = ("--display-name=a", "--backend=process", f"--local-package-path={trainer}")
    ended = vtrain("custom-jobs", "create", *words, "--python-module=trainer.task", "--credentials=adc")
    assert ended.code == 1 and "gcloud auth application-default login" in ended.err
    assert not (vtrain_home / "jobs").exists()


def test_a_service_is_not_given_the_caller_s_file(vtrain: Any, vertex: Any, signed_in: Path) -> None:
    pool = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/img"
    ended = vtrain("custom-jobs", "create", "--display-name=a", pool, "--credentials=adc")
    assert ended.code == 0
    assert "--credentials has no effect on vertex: the job runs as its service account." in ended.err
    assert CREDENTIALS not in str(vertex.requests)


def test_a_variable_that_is_named_is_given(vtrain: Any, trainer: Path, signed_in: Path) -> None:
    seen, _ = seen_by(vtrain, trainer, "--env=HF_TOKEN", "--env=CLOUDSDK_CONFIG=/mine")
    assert (seen["env"]["HF_TOKEN"], seen["env"]["CLOUDSDK_CONFIG"]) == ("h", "/mine")


def test_what_is_inherited_names_no_secret(signed_in: Path) -> None:
    assert LEAKS.keys().isdisjoint(inherited_environment())


def test_the_job_s_files_are_its_user_s_alone(vtrain: Any, trainer: Path, vtrain_home: Path) -> None:
    before = os.umask(0)
    try:
        seen_by(vtrain, trainer, "--env=HF_TOKEN=secret")
    finally:
        os.umask(before)
    for file in (vtrain_home, *vtrain_home.glob("jobs/*"), *vtrain_home.glob("jobs/*/spec.json")):
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
