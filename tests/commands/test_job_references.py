"""Jobs of this machine by the first digits of their id, their display name and `@last`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.stored_jobs import add_job, local_name
from lib.vertex_service import VertexService

from vtrain.core.references import short_ids
from vtrain.messages.names import HYPERPARAMETER_TUNING_JOBS
from vtrain.runtime.store import Store

OLDEST, MIDDLE, NEWEST = "6167751115219977808", "6167000000000000001", "9000000000000000009"
DESCRIBE = ("custom-jobs", "describe", "--format=value(name)")
LIST_HINT = "$ vtrain custom-jobs list"


@pytest.fixture
def jobs(vtrain_home: Path) -> Path:
    """Three ended jobs, of which two have the same name and two ids that begin alike."""
    add_job(vtrain_home, OLDEST, "mnist")
    add_job(vtrain_home, MIDDLE, "digits with spaces / and more")
    add_job(vtrain_home, NEWEST, "mnist", region="europe-west4")
    return vtrain_home


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (OLDEST, local_name(OLDEST)),
        ("61677", local_name(OLDEST)),
        ("9", local_name(NEWEST, "europe-west4")),
        ("digits with spaces / and more", local_name(MIDDLE)),
        ("@last", local_name(NEWEST, "europe-west4")),
    ],
)
@pytest.mark.parametrize("project", ["local", "demo"])
def test_a_job_is_named_by_what_it_alone_has(
    vtrain: Any, jobs: Path, monkeypatch: pytest.MonkeyPatch, word: str, expected: str, project: str
) -> None:
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", project)
    ended = vtrain(*DESCRIBE, word)
    assert (ended.code, ended.out) == (0, f"{expected}\n"), ended.err
    *note, last = ended.err.splitlines()
    assert last == "Backend: local (the job is on this machine)"
    assert bool(note) == (word == "@last") and all("The newest job is mnist (9" in line for line in note)


def test_the_backend_of_stored_jobs_is_this_machine(vtrain: Any, jobs: Path) -> None:
    """One store has the jobs of all its backends."""
    add_job(jobs, "7000000000000000007", "contained", backend="docker")
    assert vtrain("ps", "--format=value(name)").err == "Backend: local (no project is set)\n"
    assert vtrain("show", "contained").err == "Backend: local (the job is on this machine)\n"
    assert vtrain("ps", "--backend=docker", "--format=none").err == "Backend: docker (--backend)\n"


def test_a_region_leaves_only_the_jobs_there(vtrain: Any, jobs: Path) -> None:
    for word in ("mnist", "@last"):
        ended = vtrain(*DESCRIBE, word, "--region=us-central1")
        assert ended.out.rpartition("/")[2].strip() == (OLDEST if word == "mnist" else MIDDLE)


@pytest.mark.parametrize("project", ["local", "demo"])
def test_an_ambiguous_name_is_answered_with_the_candidates(
    vtrain: Any, jobs: Path, monkeypatch: pytest.MonkeyPatch, project: str
) -> None:
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", project)
    ended = vtrain("custom-jobs", "delete", "mnist")
    assert (ended.code, ended.out) == (1, "")
    first, *rest = ended.err.splitlines()
    assert first == "ERROR: 'mnist' may mean several jobs."
    assert [line.split()[:2] for line in rest[1:]] == [[NEWEST, "SUCCEEDED"], [OLDEST, "SUCCEEDED"]]
    assert all(line.endswith("ago  mnist") for line in rest[1:])
    assert vtrain(*DESCRIBE, OLDEST).code == 0


def test_a_candidate_has_one_line_whatever_its_name(vtrain: Any, vtrain_home: Path) -> None:
    for number in (1, 2):
        add_job(vtrain_home, f"123456789012345678{number}", "two\nlines \x1b[31mred")
    lines = vtrain("rm", "12345").err.splitlines()
    assert len(lines) == 4 and all(line.endswith("  two\\x0alines \\x1b[31mred") for line in lines[-2:])


def test_more_candidates_than_anybody_reads_are_counted_no_further(vtrain: Any, vtrain_home: Path) -> None:
    for number in range(7):
        add_job(vtrain_home, str(10**18 + number), "same")
    lines = vtrain("rm", "same").err.splitlines()
    assert len(lines) == 8 and lines[-1].strip() == "… and others"


def test_an_id_counts_over_the_name_of_another_job(vtrain: Any, jobs: Path) -> None:
    for number in range(7):
        add_job(jobs, str(10**18 + number), OLDEST)
    assert vtrain(*DESCRIBE, OLDEST).out == f"{local_name(OLDEST)}\n"


def test_a_word_that_names_nothing_says_how_to_see_what_there_is(vtrain: Any, jobs: Path) -> None:
    """One that is nearly a name is told the name."""
    for word, message in (
        ("faces", "No job on this machine has the name 'faces'."),
        ("%", "No job on this machine has the name '%'."),
        ("7", "Job 7 not found."),
        ("mnits", "No job on this machine has the name 'mnits'.\n  Did you mean mnist?"),
        ("@lsat", "No job on this machine has the name '@lsat'.\n  Did you mean @last?"),
    ):
        ended = vtrain(*DESCRIBE, word, "--backend=local")
        assert (ended.code, ended.out) == (1, "")
        assert f"ERROR: {message}\n" in ended.err
        assert LIST_HINT in ended.err or "Did you mean" in message


def test_last_of_an_empty_home(vtrain: Any, vtrain_home: Path) -> None:
    ended = vtrain("custom-jobs", "stream-logs", "@last")
    assert ended.code == 1 and "There is no job on this machine yet." in ended.err
    assert "There is no tuning job on this machine yet." in vtrain("trials").err
    assert not vtrain_home.exists()


def test_a_damaged_row_hides_no_other(vtrain: Any, jobs: Path) -> None:
    store = Store.open(jobs)
    with store.transaction() as connection:
        connection.execute("UPDATE resources SET document = '{' WHERE name = ?", (local_name(MIDDLE),))
    store.close()
    assert vtrain(*DESCRIBE, "61677").out == f"{local_name(OLDEST)}\n"
    assert "several jobs" in vtrain("rm", "mnist").err


class TestWithAProject:
    """The service is asked for what this machine does not have, and never to find out a name."""

    def test_a_number_that_is_not_here_goes_to_the_service(
        self, vtrain: Any, jobs: Path, vertex: VertexService
    ) -> None:
        for number in ("6167751115219977809", "6167", "5"):
            ended = vtrain("custom-jobs", "describe", number)
            assert ended.code == 1
            assert vertex.requests[-1].path.endswith(
                f"/projects/demo/locations/us-central1/customJobs/{number}"
            )

    @pytest.mark.parametrize("flag", ["--backend=vertex", "--project=demo"])
    def test_a_flag_for_the_service_counts_over_a_job_that_is_here(
        self, vtrain: Any, jobs: Path, vertex: VertexService, flag: str
    ) -> None:
        vtrain("custom-jobs", "describe", OLDEST, flag)
        assert vertex.requests[-1].path.endswith(f"/projects/demo/locations/us-central1/customJobs/{OLDEST}")
        count = len(vertex.requests)
        ended = vtrain("custom-jobs", "cancel", "@last", flag)
        assert ended.code == 1 and "@last names a job of this machine" in ended.err
        assert len(vertex.requests) == count

    def test_a_store_that_cannot_be_read_does_not_keep_anybody_from_the_service(
        self, vtrain: Any, jobs: Path, vertex: VertexService
    ) -> None:
        (jobs / "store.db").write_bytes(b"no database" * 100)
        vtrain("custom-jobs", "describe", OLDEST)
        assert vertex.requests[-1].path.endswith(OLDEST)

    def test_a_list_says_how_many_jobs_are_on_this_machine(
        self, vtrain: Any, jobs: Path, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told = "3 jobs are on this machine: vtrain custom-jobs list --backend=local\n"
        argv = ("custom-jobs", "list", "--format=value(name)")
        ended = vtrain(*argv)
        assert (ended.code, ended.out) == (0, "") and ended.err.startswith(told)
        monkeypatch.delenv("CLOUDSDK_AI_REGION")
        refused = vtrain(*argv)
        assert refused.code == 1 and refused.err.startswith(told)
        assert "ERROR: No region is set." in refused.err
        for flags in (("--backend=local",), ("--project=demo", "--region=us-central1"), ("--quiet",)):
            assert "on this machine:" not in vtrain(*argv, *flags).err
        assert vtrain(*argv, "--backend=local").out.count("\n") == 3
        assert "on this machine:" not in vtrain("hp-tuning-jobs", "list").err


def test_short_ids_are_the_digits_that_tell_jobs_apart() -> None:
    names = [local_name(number) for number in (OLDEST, MIDDLE, NEWEST, "9000000000000000010")]
    expected = ("616775", "616700", "900000000000000000", "900000000000000001")
    assert short_ids(names) == dict(zip(names, expected, strict=True))
    assert short_ids([]) == {} and short_ids(names[:1]) == {names[0]: "616775"}


def test_of_jobs_that_share_a_name_stop_means_the_running_one(vtrain: Any, jobs: Path) -> None:
    running = "7000000000000000007"
    add_job(jobs, running, "mnist", state="JOB_STATE_QUEUED")
    for number in range(7):
        add_job(jobs, str(10**18 + number), "mnist")
    ended = vtrain("stop", "mnist")
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert f"Request to cancel CustomJob [{local_name(running)}] has been sent." in ended.err
    assert "may mean several jobs" in vtrain("rm", "mnist").err


def test_predict_and_compare_mean_the_newest_of_a_shared_name(vtrain: Any, jobs: Path) -> None:
    (request := jobs / "request.json").write_text('{"instances": [1]}')
    note = f"The newest of 2 jobs called mnist is meant ({NEWEST}"
    for words in (("predict", "mnist", f"--json-request={request}"), ("compare", "mnist", MIDDLE)):
        assert note in vtrain(*words).err


def test_of_jobs_that_share_a_name_reading_commands_mean_the_newest(vtrain: Any, jobs: Path) -> None:
    note = f"The newest of 2 jobs called mnist is meant ({NEWEST}, SUCCEEDED, "
    for line in ("show mnist", "logs mnist", "cp mnist:", "custom-jobs describe mnist"):
        ended = vtrain(*line.split())
        assert ended.err.splitlines()[0].startswith(note), ended.err
        assert "several jobs" not in ended.err
    quiet = vtrain("show", "mnist", "--quiet", "--format=value(name)")
    assert (quiet.out, quiet.err) == (f"{local_name(NEWEST, 'europe-west4')}\n", "")


def test_without_a_name_the_newest_job_is_meant(vtrain: Any, jobs: Path, cwd: Path) -> None:
    for command in ("show", "logs", "wait", "rerun"):
        ended = vtrain(command)
        assert f"The newest job is mnist ({NEWEST}, SUCCEEDED, " in ended.err
        assert ended.err.count("newest") == 1
    add_job(jobs, "5000", "study", collection=HYPERPARAMETER_TUNING_JOBS)
    for command in ("trials", "best", "report"):
        assert "The newest job is study (5000, SUCCEEDED, " in vtrain(command).err
        assert vtrain("hp-tuning-jobs", command).code == 2
    (request := jobs / "request.json").write_text('{"instances": [1]}')
    assert "The newest job is mnist" in vtrain("predict", f"--json-request={request}").err


def test_a_command_that_changes_something_and_one_of_gclouds_need_a_name(vtrain: Any, jobs: Path) -> None:
    for line in ("stop", "rm", "exec", "shell", "custom-jobs describe"):
        assert vtrain(*line.split()).code == 2
        assert vtrain(*line.split(), "").code in (1, 2)
    assert len(Store.open(jobs).backends(("customJobs",))) == 3


def test_of_several_running_jobs_stop_means_none(vtrain: Any, jobs: Path) -> None:
    running = ("7000000000000000007", "7000000000000000008")
    for job in running:
        add_job(jobs, job, "mnist", state="JOB_STATE_QUEUED")
    ended = vtrain("stop", "mnist")
    assert ended.code == 1
    assert [line.split()[0] for line in ended.err.splitlines()[2:]] == [*reversed(running)]
    assert "may mean several jobs" in vtrain("stop", "7").err, "the beginning of an id is no name"


def test_an_ended_job_is_not_stopped_again(vtrain: Any, jobs: Path) -> None:
    for line in ("custom-jobs cancel", "stop"):
        ended = vtrain(*line.split(), MIDDLE)
        assert (ended.code, ended.out) == (0, "")
        last = ended.err.splitlines()[-1]
        assert last == f"CustomJob [{local_name(MIDDLE)}] has ended already: SUCCEEDED."


def test_hints_of_short_commands_are_short_through_a_pipe_too(vtrain: Any, jobs: Path) -> None:
    add_job(jobs, "7000000000000000007", "queued", state="JOB_STATE_QUEUED")
    add_job(jobs, "7000000000000000008", "other", state="JOB_STATE_QUEUED")
    assert "\n$ vtrain logs 7000000000000000007 -f\n" in vtrain("stop", "queued").err
    assert f"\n$ vtrain custom-jobs wait {local_name('7000000000000000008')}\n" in (
        vtrain("custom-jobs", "cancel", "other").err
    )
    for nobody in ("nobody", "123"):
        for short in ("logs", "top", "cp"):
            word = f"{nobody}:model" if short == "cp" else nobody
            assert vtrain(short, word).err.splitlines()[-1].strip() == "$ vtrain ps", short
        assert vtrain("custom-jobs", "describe", nobody).err.splitlines()[-1].strip() == LIST_HINT
    assert vtrain("exec", MIDDLE, "--", "ls").err.splitlines()[-1].strip() == f"$ vtrain logs {MIDDLE}"
