"""`vtrain cp`: what is copied of a job, and where to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.link_swapper import swapped_with_link
from lib.local_jobs import ended, submit
from lib.vertex_service import VertexService
from lib.waiting import wait_until

from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.runtime.folder import JobFolder
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def job(vtrain_home: Path) -> Iterator[str]:
    """The id of an ended job with a model in its output folder, and a note in its working directory."""
    backend = open_backend(
        "process", BackendSettings(home=vtrain_home, project="local", region="us-central1")
    )
    assert isinstance(backend, LocalBackend)
    name = submit(backend, script_job(Script(), display_name="digits"))
    ended(backend, name)
    output = backend.holdings(name).output
    assert output is not None
    (output / "model" / "deep").mkdir(parents=True)
    (output / "model" / "deep" / "weights").write_text("w")
    (output / "model" / "link").symlink_to("/nowhere")
    job_id = name.rpartition("/")[2]
    (JobFolder(vtrain_home / "jobs" / job_id).replica("workerpool0-0").work / "note.txt").write_text("n")
    yield job_id


def test_folders_and_files_are_copied_as_cp_does(
    vtrain: Any, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, new = tmp_path / "there", tmp_path / "new"
    there.mkdir()
    copied = vtrain("cp", f"{job}:model", str(there))
    assert copied.code == 0
    assert copied.err.endswith(f"/model to {there}/model.\n")
    assert vtrain("cp", "digits:model", str(new)).code == 0
    for folder in (there / "model", new):
        assert (folder / "deep" / "weights").read_text() == "w"
        assert (folder / "link").is_symlink()
    monkeypatch.chdir(there)
    Path("note.txt").write_text("old")
    assert vtrain("cp", f"{job}:note.txt").code == 0
    assert Path("note.txt").read_text() == "n"


def test_a_file_never_takes_the_place_of_a_folder(vtrain: Any, job: str, tmp_path: Path) -> None:
    """As with cp, a path that ends with a slash means a folder."""
    refused = vtrain("cp", f"{job}:note.txt", f"{tmp_path}/out/")
    assert refused.code == 1
    assert f"there is no folder {tmp_path}/out/" in refused.err
    assert f"mkdir -p {tmp_path}/out/" in refused.err
    (tmp_path / "file").write_text("kept")
    for source, target in (("note.txt", "file/"), ("model", "file"), ("model", "file/")):
        assert vtrain("cp", f"{job}:{source}", f"{tmp_path}/{target}").code == 1
    assert (tmp_path / "file").read_text() == "kept"
    assert vtrain("cp", f"{job}:model", f"{tmp_path}/new/").code == 0
    assert (tmp_path / "new" / "deep" / "weights").read_text() == "w"


def test_a_file_goes_where_it_is_said_to_have_gone(vtrain: Any, job: str, tmp_path: Path) -> None:
    """A folder of the file's name is not written into, and a missing folder is told with its remedy."""
    (tmp_path / "note.txt").mkdir()
    refused = vtrain("cp", f"{job}:note.txt", str(tmp_path))
    assert (refused.code, list((tmp_path / "note.txt").iterdir())) == (1, [])
    assert f"Nothing is copied: {tmp_path}/note.txt is a folder." in refused.err
    refused = vtrain("cp", f"{job}:note.txt", str(tmp_path / "new" / "note.txt"))
    assert refused.code == 1
    assert f"there is no folder {tmp_path}/new.\n  $ mkdir -p {tmp_path}/new\n" in refused.err


def test_an_empty_target_is_no_folder(vtrain: Any, job: str, cwd: Path) -> None:
    """A variable of a script that is not set."""
    refused = vtrain("cp", f"{job}:note.txt", "")
    assert (refused.code, [path.name for path in cwd.iterdir()]) == (2, ["t.py"])
    assert "ERROR: The target is empty.\n" in refused.err


def test_what_is_refused_is_told_with_what_works(vtrain: Any, job: str, tmp_path: Path) -> None:
    def refused(path: str, *flags: str) -> str:
        ended = vtrain("cp", f"{job}:{path}", str(tmp_path / "got"), *flags)
        assert (ended.code, list(tmp_path.iterdir())) == (1, [])
        return str(ended.err)

    # checkpoints/ and logs/ are empty: no hint names what the next command would refuse
    assert "ERROR: The job has no absent.\n  It has model/, note.txt.\n" in refused("absent")
    assert "ERROR: The job has no modle.\n  Did you mean model/?\n" in refused("modle")
    for path in ("../spec.json", "/etc/hosts"):
        said = refused(path)
        assert f"{path} is not below the job's output folder" in said and "exec" not in said, "it has ended"
    for name in ("workerpool1-0", "../replicas/workerpool0-0", "workerpool0-0/.", "/"):
        assert f"No replica {name} of the job has started." in refused("note.txt", f"--task-name={name}")


def test_no_link_leads_out_of_the_job_or_of_the_target(
    vtrain: Any, job: str, vtrain_home: Path, tmp_path: Path
) -> None:
    outside, there, got = tmp_path / "outside", tmp_path / "there", tmp_path / "got"
    (outside / "deep").mkdir(parents=True)
    (outside / "secret").write_text("s")
    (model,) = (vtrain_home / "buckets").glob("local-runs/*/model")
    (model / "out").symlink_to(outside)
    for path in ("model/out", "model/out/secret", "model/out/deep"):
        refused = vtrain("cp", f"{job}:{path}", str(got))
        assert refused.code == 1 and not got.exists()
        assert f"ERROR: {path} is a link out of the job's folders, to {outside}" in refused.err
    (there / "model").mkdir(parents=True)
    link = there / "model" / "deep"
    link.symlink_to(outside)
    refused = vtrain("cp", f"{job}:model", str(there))
    assert refused.code == 1 and not (outside / "weights").exists()
    assert f"Nothing is copied: {link} is a link" in refused.err and "copy to another folder" in refused.err


@pytest.mark.parametrize("name", ["note.txt", "deep/note.txt"])
def test_a_link_that_appears_while_files_are_copied_leads_nowhere(
    vtrain: Any, job: str, vtrain_home: Path, tmp_path: Path, name: str
) -> None:
    """A trainer that runs, in a container even as root, changes its folders while they are copied."""
    work = JobFolder(vtrain_home / "jobs" / job).replica("workerpool0-0").work
    (work / name).parent.mkdir(exist_ok=True)
    (work / name).write_text("own")
    secret = tmp_path / "secret" / "note.txt"
    secret.parent.mkdir()
    secret.write_text("secret")
    part = name.partition("/")[0]
    target = secret.parent if "/" in name else secret
    with swapped_with_link(work / part, target):
        for number in range(40):
            got = tmp_path / str(number)
            vtrain("cp", f"{job}:{part}", str(got))
            for path in got.rglob("*") if got.is_dir() and not got.is_symlink() else [got]:
                assert path.is_symlink() or not path.is_file() or path.read_text() == "own"


def test_pipes_are_named_and_not_copied(vtrain: Any, job: str, vtrain_home: Path, tmp_path: Path) -> None:
    work = JobFolder(vtrain_home / "jobs" / job).replica("workerpool0-0").work
    os.mkfifo(work / "pipe")
    refused = vtrain("cp", f"{job}:pipe", str(tmp_path / "got"))
    assert (refused.code, list(tmp_path.iterdir())) == (1, [])
    assert f"Nothing is copied: {work / 'pipe'} is a pipe, a socket or a device." in refused.err
    (work / "out").mkdir()
    (work / "pipe").rename(work / "out" / "pipe")
    (work / "out" / "file").write_text("f")
    refused = vtrain("cp", f"{job}:out", str(tmp_path / "got"))
    assert (refused.code, [path.name for path in (tmp_path / "got").iterdir()]) == (1, ["file"])
    place = work / "out" / "pipe"
    assert f"1 file could not be copied. The first: A pipe, a socket or a device: {place}." in refused.err


def test_folders_without_a_file_are_not_copied(
    vtrain: Any, job: str, vtrain_home: Path, tmp_path: Path
) -> None:
    (model,) = (vtrain_home / "buckets").glob("local-runs/*/model")
    (model / "deep" / "weights").unlink()
    got = tmp_path / "got"
    assert vtrain("cp", f"{job}:model", str(got)).code == 0  # there is a link
    (model / "link").unlink()
    for path, named in (("model", "model"), ("checkpoints", "checkpoints"), ("", "its output folder")):
        refused = vtrain("cp", f"{job}:{path}", str(tmp_path / "none"))
        assert refused.code == 1 and not (tmp_path / "none").exists()
        assert f"ERROR: The job has written no files to {named}.\n" in refused.err


def test_files_in_the_working_directory_stand_behind_no_empty_folder(
    vtrain: Any, job: str, vtrain_home: Path, tmp_path: Path
) -> None:
    """vtrain has made the folder of checkpoints; a trainer that runs has written to one of the same name.

    A path there may hold colons and the words of a name.
    """
    work = JobFolder(vtrain_home / "jobs" / job).replica("workerpool0-0").work
    for name in ("checkpoints/last", "a/customJobs/b:c"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("c")
    assert vtrain("cp", f"{job}:checkpoints", str(tmp_path / "got")).code == 0
    assert (tmp_path / "got" / "last").read_text() == "c"
    full = f"projects/local/locations/us-central1/customJobs/{job}"
    for number, name in enumerate((job, full)):
        got = tmp_path / str(number)
        assert vtrain("cp", f"{name}:a/customJobs/b:c", str(got)).code == 0
        assert got.read_text() == "c"


def test_a_full_name_may_have_a_colon_of_its_own(vtrain: Any, tmp_path: Path) -> None:
    name = "projects/example.com:demo/locations/us-central1/customJobs/123"
    refused = vtrain("cp", f"{name}:model", str(tmp_path / "got"))
    assert refused.code == 1 and "is neither an id nor" not in refused.err
    assert "is neither an id nor" not in vtrain("cp", name, str(tmp_path / "got")).err


def test_without_a_path_the_whole_output_folder_is_copied(vtrain: Any, job: str, cwd: Path) -> None:
    """Without any word it is that of the newest job."""
    for number, word in enumerate((job, f"{job}:", "digits", ":")):
        ended = vtrain("cp", word, str(cwd / str(number)))
        assert ended.code == 0, ended.err
        assert (cwd / str(number) / "model" / "deep" / "weights").read_text() == "w"
        assert ("The newest job is digits" in ended.err) == (word == ":")
    assert vtrain("cp").code == 0
    assert [*cwd.glob("[!0-9]*/model/deep/weights")]


def test_a_source_that_is_no_job_is_a_wrong_line(vtrain: Any, job: str) -> None:
    ended = vtrain("cp", "model", "copied")
    assert ended.code == 1 and "No job on this machine has the name 'model'." in ended.err
    assert vtrain("cp", "").code == 2


def test_of_a_job_on_vertex_the_command_of_gcloud_is_shown(vtrain: Any, vertex: VertexService) -> None:
    spec = {"workerPoolSpecs": [{"containerSpec": {"imageUri": "gcr.io/p/i"}}]}
    document = {
        "displayName": "far",
        "jobSpec": spec | {"baseOutputDirectory": {"outputUriPrefix": "gs://b/o"}},
    }
    created = vtrain(
        "custom-jobs", "create", "--config=-", "--format=value(name)", stdin=json.dumps(document)
    )
    refused = vtrain("cp", f"{created.out.strip()}:model", "./model dir")
    assert refused.code == 1
    assert "$ gcloud storage cp --recursive gs://b/o/model './model dir'\n" in refused.err


def test_an_interrupted_copy_leaves_the_target_as_it_was(vtrain_home: Path, job: str, tmp_path: Path) -> None:
    work = JobFolder(vtrain_home / "jobs" / job).replica("workerpool0-0").work
    with (work / "big").open("wb") as big:
        big.truncate(3 * 1024**3)
    target = tmp_path / "big"
    target.write_text("good")
    line = [sys.executable, "-m", "vtrain", "cp", f"{job}:big", str(target)]
    copying = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, pause=0.001)
    copying.send_signal(signal.SIGINT)
    assert copying.wait(60) == 130
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("big", "good")]


def test_a_file_is_not_copied_onto_itself(vtrain: Any, vtrain_home: Path, job: str) -> None:
    note = JobFolder(vtrain_home / "jobs" / job).replica("workerpool0-0").work / "note.txt"
    refused = vtrain("cp", f"{job}:note.txt", str(note))
    assert (refused.code, note.read_text()) == (1, "n")
    assert refused.err.endswith(f"ERROR: Nothing is copied: {note} and {note} are the same file.\n")


def test_links_and_devices_stay_what_they_are(vtrain: Any, job: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    assert vtrain("cp", f"{job}:note.txt", str(tmp_path / "link")).code == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "n"
    before = Path("/dev/null").stat()
    assert vtrain("cp", f"{job}:note.txt", "/dev/null").code == 0
    after = Path("/dev/null").stat()
    assert (after.st_mode, after.st_rdev) == (before.st_mode, before.st_rdev)
