"""Names that a user gives: none of them is a way out of the folder that it belongs to."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vtrain.errors import ConfigError
from vtrain.messages.log import LogQuery
from vtrain.staging import LocalBuckets

POOL = "--worker-pool-spec=machine-type=n1-standard-4,python-module=trainer.task"
JOB = "projects/local/locations/us-central1/customJobs"
PART = st.sampled_from(["..", ".", "", "a", "b.txt", "a" * 300, "%2e%2e", "\\..", "x\ny", "ü", "/"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(parts=st.lists(PART, max_size=8))
def test_the_name_of_an_object_is_a_path_below_its_bucket(tmp_path: Path, parts: list[str]) -> None:
    buckets = LocalBuckets(tmp_path)
    uri = "gs://bucket/" + "/".join(parts)
    try:
        path = buckets.local_path(uri)
    except ConfigError as error:
        assert "leads out of its bucket" in error.message
    else:
        assert path.is_relative_to(tmp_path / "buckets" / "bucket")


@pytest.mark.parametrize(
    "uri", ["gs://../../etc/passwd", "gs://./x", "gs:///etc/passwd", "gs://a b/x", "gs://b\n/x", "gs://-b/x"]
)
def test_what_is_no_bucket_is_refused(tmp_path: Path, uri: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a bucket"):
        LocalBuckets(tmp_path).local_path(uri)


@pytest.mark.skipif(find_spec("google_crc32c") is None, reason="needs the extra emulator")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(parts=st.lists(PART, min_size=1, max_size=8), suffix=st.text(max_size=5))
def test_an_object_of_the_emulator_lies_in_its_bucket_or_aside(
    tmp_path: Path, parts: list[str], suffix: str
) -> None:
    from vtrain.emulator.storage.object_files import BucketFolders

    folders = BucketFolders(tmp_path / "buckets", tmp_path / "aside")
    name = "/".join(parts) + suffix
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        return
    file = folders.prepare_file("bucket", name)
    path = file.root.path / file.place
    inside = path.is_relative_to(tmp_path / "buckets" / "bucket") or path.is_relative_to(tmp_path / "aside")
    assert inside and ".." not in path.parts


@pytest.mark.parametrize(
    "job", ["..", ".", "../../x", f"{JOB}/..", f"{JOB}/.", f"{JOB}/../..", f"{JOB}/%2e%2e"]
)
@pytest.mark.parametrize("verb", ["describe", "cancel", "delete", "stream-logs", "wait"])
def test_an_id_is_no_path(vtrain: Any, trainer: Path, vtrain_home: Path, verb: str, job: str) -> None:
    words = ("custom-jobs", "list", "--backend=process")
    assert vtrain(*words).code == 0
    vtrain_home.mkdir(exist_ok=True)
    (vtrain_home / "keep").write_text("mine")
    ended = vtrain("custom-jobs", verb, job, "--backend=process")
    assert ended.code == 1 and "Traceback" not in ended.err
    assert (vtrain_home / "keep").read_text() == "mine"


def test_the_name_of_a_task_is_no_path(vtrain: Any, trainer: Path, vtrain_home: Path) -> None:
    words = (f"--local-package-path={trainer}", "--python-module=trainer.task", "--backend=process", "--wait")
    made = vtrain("custom-jobs", "create", "--display-name=a", *words, "--format=value(name)")
    assert made.code == 0, made.err
    (vtrain_home / "secret.log").write_text("secret\n")
    ended = vtrain("custom-jobs", "stream-logs", made.out.strip(), "--task-name=../../../secret")
    assert "secret\n" not in ended.out
    assert LogQuery(name="a", task_name="../x").task_name == "../x"


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/evil", "a\nb", "\x1b[2J", "x" * 129, "ü" * 128, "-rf", "$(id)"]
)
def test_a_display_name_makes_no_path(vtrain: Any, trainer: Path, vtrain_home: Path, name: str) -> None:
    words = (f"--local-package-path={trainer}", "--python-module=trainer.task", f"--display-name={name}")
    ended = vtrain("custom-jobs", "local-run", *words)
    assert ended.code == (1 if len(name) > 128 else 0), ended.err
    runs = vtrain_home / "buckets" / "local-runs"
    assert all(path.is_relative_to(runs) for path in vtrain_home.parent.rglob("*evil*"))
    assert list(vtrain_home.glob("buckets/*")) in ([], [runs])
    assert all(len(path.relative_to(runs).parts) <= 2 for path in runs.rglob("*"))


@pytest.mark.parametrize("label", ["a=../x", "../a=x", "a=x\ny", "a=\x1b[2J", "=x", f"a={'x' * 64}", "A=b"])
def test_what_is_no_label_is_refused(vtrain: Any, vtrain_home: Path, label: str) -> None:
    ended = vtrain(
        "custom-jobs", "create", "--backend=process", "--display-name=a", POOL, f"--labels={label}"
    )
    assert ended.code == 2 and "\x1b" not in ended.err
    assert not vtrain_home.exists() or not (vtrain_home / "jobs").exists()


@pytest.mark.parametrize(
    "config", ["/", "/dev/null", "nothing\n.yaml", "x" * 5000, "\x1b[2J", "~nobody-here/x"]
)
def test_what_is_no_config_file_is_refused(vtrain: Any, vtrain_home: Path, config: str) -> None:
    ended = vtrain("custom-jobs", "create", "--backend=process", "--display-name=a", f"--config={config}")
    assert ended.code in (1, 2), ended.err
    assert "\x1b" not in ended.err and "failed unexpectedly" not in ended.err
    assert not (vtrain_home / "jobs").exists()


@pytest.mark.parametrize("home", ["/dev/null", "/dev/null/x", "FILE", "x" * 5000])
def test_what_can_be_no_home_is_refused(
    vtrain: Any, trainer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VTRAIN_HOME", str(tmp_path / "file") if home == "FILE" else home)
    words = (f"--local-package-path={trainer}", "--python-module=trainer.task", "--backend=process")
    ended = vtrain("custom-jobs", "create", "--display-name=a", *words)
    assert ended.code == 1, ended
    assert "failed unexpectedly" not in ended.err and ended.err.count("\nERROR: ") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_a_home_with_an_odd_name_works(
    vtrain: Any, trainer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a home\n\x1b[2J'\"$(id);ü"
    monkeypatch.setenv("VTRAIN_HOME", str(home))
    words = (f"--local-package-path={trainer}", "--python-module=trainer.task")
    ended = vtrain("custom-jobs", "local-run", *words)
    assert ended.code == 0, ended.err
    assert "\x1b" not in ended.err and list(home.glob("jobs/*"))


def test_links_out_of_a_trainer_s_folder_are_not_followed(vtrain: Any, trainer: Path, tmp_path: Path) -> None:
    (tmp_path / "private.txt").write_text("not yours")
    (trainer / "trainer" / "notes.txt").symlink_to(tmp_path / "private.txt")
    (trainer / "trainer" / "passwd").symlink_to("/etc/passwd")
    (trainer / "up").symlink_to(tmp_path)
    (trainer / "trainer" / "inside.py").symlink_to("task.py")
    out = tmp_path / "out"
    words = (f"--local-package-path={trainer}", "--python-module=trainer.task", f"--output-dir={out}")
    ended = vtrain("package", "sdist", *words)
    assert ended.code == 0, ended.err
    for name in ("trainer/notes.txt", "trainer/passwd", "up"):
        assert f"WARNING: {name} is left out: it is a link to a" in ended.err
    import tarfile

    with tarfile.open(ended.out.strip()) as tar:
        names = [name.rpartition("site/")[2] for name in tar.getnames()]
    assert "trainer/inside.py" in names
    assert not {"trainer/notes.txt", "trainer/passwd"} & set(names)
