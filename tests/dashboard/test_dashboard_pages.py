"""The pages of the dashboard over jobs that have run here."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lib.dashboard_service import Board, headings_of, lines_of, page_of, rows_of, text_of
from lib.experiment_files import add_run
from lib.stored_jobs import add_job, local_name
from lib.tuning_jobs import tuning_document

from vtrain.messages import states
from vtrain.runtime.database import DATABASE
from vtrain.runtime.store import Record, Store

TUNING, PIPELINES = "hyperparameterTuningJobs", "trainingPipelines"


def test_without_jobs_it_says_how_to_run_one(board: Board, vtrain_home: Path) -> None:
    assert "vtrain run train.py" in board.page("/")
    assert not vtrain_home.exists()


def test_the_list_has_jobs_of_all_kinds_newest_first(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "first", created="2026-11-01T10:00:00Z", fields={"replicas": [
        {"name": "workerpool0-0", "attempts": [
            {"attempt": 0, "exitCode": 1, "peakMemoryBytes": 5_000_000, "cpuSeconds": 1.5},
            {"attempt": 1, "exitCode": 0, "peakMemoryBytes": 7_000_000, "cpuSeconds": 2.5},
        ]},
    ]})  # fmt: skip
    name = local_name("1002", collection=TUNING)
    fields = tuning_document(name) | {"displayName": "second", "createTime": "2026-11-02T10:00:00Z"}
    add_job(vtrain_home, "1002", "second", created=fields["createTime"], collection=TUNING, fields=fields)
    add_job(vtrain_home, "1003", "third", created="2026-11-03T10:00:00Z", collection=PIPELINES,
            state="PIPELINE_STATE_SUCCEEDED", fields={"jobSpec": None})  # fmt: skip
    rows = rows_of(board.page("/"))
    assert [row[0] for row in rows] == [
        "third Pipeline 1003",
        "second Tuning job 1002 · 4 of 4 trials",
        "first Custom job 1001",
    ]
    assert [row[1] for row in rows] == ["Succeeded"] * 3
    assert rows[1][5:] == ["0.91235", "0.0123", "8", "sgd"]
    assert rows[2][3:] == ["1.0 s", "7.0 MB", "–", "–", "–", "–"]


def test_the_list_has_what_jobs_and_runs_of_experiments_measured(board: Board, vtrain_home: Path) -> None:
    output = vtrain_home / "buckets" / "runs" / "1001"
    output.mkdir(parents=True)
    (output / "metrics.json").write_text('{"loss": [2, 1, 0.123456789], "accuracy": 0.75}')
    pool = {"pythonPackageSpec": {"args": ["--lr=0.1", "--name", "<b>"]}}
    spec = {"workerPoolSpecs": [pool], "baseOutputDirectory": {"outputUriPrefix": "gs://runs/1001"}}
    name = add_job(vtrain_home, "1001", "first", fields={"jobSpec": spec})
    assert f"{output}</p>" in board.page(page_of(name))
    metrics = {f"m{number}": number for number in range(9)}
    add_run(vtrain_home, "digits", "a", created="2026-11-02T10:00:00Z", _metrics=metrics, _state="COMPLETE")
    add_run(vtrain_home, "digits", "b", created="2026-10-01T10:00:00Z", _state="FAILED")
    rows = rows_of(board.page("/"))
    assert [row[:2] for row in rows] == [
        ["a Experiment run digits", "Complete"],
        ["first Custom job 1001", "Succeeded"],
        ["b Experiment run digits", "Failed"],
    ]
    page = board.page("/?kind=customJobs")
    assert list(headings_of(page))[5:] == ["loss", "accuracy", "lr", "name"]
    assert rows_of(page)[0][5:] == ["0.12346", "0.75", "0.1", "<b>"]
    assert [row[0][0] for row in rows_of(board.page("/?kind=experimentRuns"))] == ["a", "b"]
    for state, found in {"SUCCEEDED": ["a"], "FAILED": ["b"], "RUNNING": []}.items():
        page = board.page(f"/?kind=experimentRuns&state={state}")
        assert [row[0][0] for row in rows_of(page)] == found
    assert [row[0][0] for row in rows_of(board.page("/?state=FAILED"))] == ["b"]
    assert [row[0][0] for row in rows_of(board.page("/?find=digits"))] == ["a", "b"]
    assert [row[0][0] for row in rows_of(board.page("/?kind=customJobs"))] == ["f"]


def add_measured(home: Path, job_id: str, name: str, loss: list[float], day: int = 1) -> str:
    output = home / "buckets" / "runs" / job_id
    output.mkdir(parents=True)
    (output / "metrics.json").write_text(json.dumps({"loss": loss}))
    pool = {"pythonPackageSpec": {"args": [f"--lr={1 / int(job_id)}", "--same=1"]}}
    spec = {"workerPoolSpecs": [pool], "baseOutputDirectory": {"outputUriPrefix": f"gs://runs/{job_id}"}}
    return add_job(home, job_id, name, created=f"2026-11-0{day}T10:00:00Z", fields={"jobSpec": spec})


def test_the_list_is_sorted_by_every_heading(board: Board, vtrain_home: Path) -> None:
    for job_id, name, loss in (("1001", "b", 0.5), ("1002", "c", 10), ("1003", "a", 9)):
        add_measured(vtrain_home, job_id, name, [loss, loss])
    add_job(vtrain_home, "1004", "d", created="2026-11-04T10:00:00Z")

    def names(page: str) -> str:
        return "".join(row[0][0] for row in rows_of(page))

    first = board.page("/?find=100")
    assert names(first)[0] == "d" and "data-live" in first
    by_loss = board.page(headings_of(first)["loss"])
    assert names(by_loss) == "bacd" and "data-live" not in by_loss
    assert names(board.page(headings_of(by_loss)["loss ▴"])) == "cabd"
    assert names(board.page(headings_of(first)["Name"])) == "abcd"
    assert names(board.page(headings_of(first)["Created"]))[-1] == "d"
    assert 'value="100"' in by_loss, "the search stays"
    assert len(names(board.page("/?sort=metrics.nothing"))) == 4


def test_ticked_jobs_stand_side_by_side(board: Board, vtrain_home: Path) -> None:
    names = [
        add_measured(vtrain_home, "1001", "<b>first</b>", [2, 1]),
        add_measured(vtrain_home, "1002", "second", [4, 3], day=2),
    ]
    add_run(vtrain_home, "digits", "a", created="2026-11-03T10:00:00Z", _metrics={"loss": 7})
    ticks = re.findall(r'name="job" value="(.*?)"', board.page("/"))
    assert ticks[1:] == names[::-1], ticks
    page = board.page(f"/compare?job={'&job='.join(map(html.unescape, ticks))}")
    table = page.partition('class="sides"')[2].partition("</table>")[0]
    cells = {
        text_of(row.partition("</th>")[0]): re.findall(r"<td>(.*?)</td>", row)
        for row in table.split('<th scope="row">')
    }
    assert cells["metrics.loss"] == ["1", "3", "7"]
    assert cells["args.same"] == ["1", "1", "–"]
    assert "&lt;b&gt;first&lt;/b&gt;" in page and "<b>first" not in page
    (figure,) = figures_of(page)
    assert [trace["y"] for trace in figure["data"]] == [[2, 1], [4, 3]]
    assert figure["data"][0]["name"] == "&lt;b&gt;first&lt;/b&gt;", "plotly reads tags"
    assert "Tick two jobs" in board.page("/compare")
    board.page(f"/compare?job={local_name('7')}", 404)
    board.page("/compare?job=<script>", 404)


def test_files_that_differ_are_shown_as_a_diff(board: Board, run: Any, vtrain: Any) -> None:
    for name in ("one", "two"):
        run(f"print('<i>{name}</i>')", name=name)
    listed = vtrain("custom-jobs", "list", "--backend=local", "--format=value(name)").out.split()
    page = board.page(f"/compare?job={'&job='.join(listed)}")
    assert '<span class="bad">-print(&#39;&lt;i&gt;one&lt;/i&gt;&#39;)</span>' in page
    assert "+print" in page


def test_jobs_that_others_run_are_on_the_pages_of_those(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "a pipeline", collection=PIPELINES, state="PIPELINE_STATE_SUCCEEDED")
    add_job(vtrain_home, "1002", "its job", fields={"labels": {"vtrain-training-pipeline": "1001"}})
    assert [row[0] for row in rows_of(board.page("/"))] == ["a pipeline Pipeline 1001"]
    page = board.page(f"/jobs/local/us-central1/{PIPELINES}/1001")
    assert [row[0] for row in rows_of(page)] == ["its job Custom job 1002"]
    assert "a pipeline" in board.page("/jobs/local/us-central1/customJobs/1002")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?state=FAILED", ["beta"]),
        ("?kind=trainingPipelines", []),
        ("?kind=customJobs", ["Gamma", "beta", "alpha"]),
        ("?find=GAM", ["Gamma"]),
        ("?find=1002", ["beta"]),
        ("?find=a&state=SUCCEEDED", ["Gamma", "alpha"]),
        ("?state=nonsense&kind=nonsense&page=x", ["Gamma", "beta", "alpha"]),
        ("?page=0", ["Gamma", "beta", "alpha"]),
        ("?page=99999999999999", []),
    ],
)
def test_the_list_is_filtered_by_a_form(
    board: Board, vtrain_home: Path, query: str, found: list[str]
) -> None:
    for number, (name, state) in enumerate(
        [("alpha", states.SUCCEEDED), ("beta", states.FAILED), ("Gamma", states.SUCCEEDED)], 1
    ):
        add_job(vtrain_home, f"100{number}", name, state=state, created=f"2026-11-0{number}T10:00:00Z")
    page = board.page(f"/{query}")
    assert [row[0].partition(" ")[0] for row in rows_of(page)] == found
    assert found or "No job matches" in page


def test_a_thousand_jobs_are_listed_in_pages(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1000", "the first")
    store = Store.open(vtrain_home)
    with store.transaction() as connection:
        for number in range(1001, 2000):
            name = local_name(str(number))
            document = f'{{"name": "{name}", "displayName": "job {number}", "state": "{states.SUCCEEDED}"}}'
            values = (name, "customJobs", states.SUCCEEDED, "2026-11-01T10:00:00Z", "", "process", document)
            connection.execute(
                "INSERT INTO resources (name, collection, state, create_time, end_time, backend, document,"
                " project, location, key) VALUES (?, ?, ?, ?, ?, ?, ?, 'local', 'us-central1', '')",
                values,
            )
    store.close()
    first = board.page("/")
    assert len(rows_of(first)) == 50 and "job 1999" in first and 'rel="prev"' not in first
    found, page = [], first
    while following := re.search(r'<a rel="next" href="(.*?)"', page):
        found += rows_of(page)
        page = board.page(following[1])
    found += rows_of(page)
    assert len({row[0] for row in found}) == 1000 and 'rel="prev"' in page


def test_models_and_persistent_resources_are_short_lists(board: Board, vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("1")
    here = ("--backend=local", "--region=us-central1")
    made = vtrain("models", "upload", "--display-name=digits", "--container-image-uri=i",
                  f"--artifact-uri=file://{tmp_path}/model", *here)  # fmt: skip
    assert made.code == 0, made.err
    pool = "--resource-pool-spec=replica-count=2,machine-type=n1-standard-4"
    made = vtrain("persistent-resources", "create", "--persistent-resource-id=shared", pool, *here)
    assert made.code == 0, made.err
    words = text_of(board.page("/"))
    assert "digits" in words and "version 1" in words
    assert "shared" in words and "2 × n1-standard-4" in words
    assert "digits" not in board.page("/?find=x")


def test_a_job_has_its_facts_and_its_configuration_with_secrets_masked(board: Board, run: Any) -> None:
    page = board.page(run("print('trained')", "--env=API_TOKEN=hunter22secret", "--env=MODE=fast"))
    assert lines_of(page)[-1] == "trained"
    assert "Succeeded" in page and "Peak memory" in page and "Processor time" in page
    assert "pythonPackageSpec:" in page and "MODE" in page and "API_TOKEN" in page
    assert "hunter22secret" not in page


def test_a_page_begins_with_the_command_line_and_the_arguments(board: Board, run: Any) -> None:
    script = WRITES.format(name="metrics.json", text='{"loss": [3, 1, 2], "lr": [1, 2]}')
    page = board.page(run(f"import sys\n{script}", "--", "--lr=0.1", "--api-key=hunter22secret"))
    words = text_of(page.partition('id="summary"')[2])
    assert re.match(r"> vtrain custom-jobs local-run .*-- --lr=0.1", words)
    assert "Arguments lr 0.1" in words and "Metrics loss 2 (best 1) lr 2" in words
    assert "hunter22" not in page


def test_a_failure_is_explained(board: Board, run: Any, tmp_path: Path) -> None:
    address = run("import json\njson.loads('{')\n", code=1)
    page = board.page(address)
    words = text_of(page)
    assert "Failed with exit code 1: an uncaught exception" in words
    assert "JSONDecodeError" in words and "train.py:2" in words
    assert "JSONDecodeError" in rows_of(board.page("/"))[0][0]


def figures_of(page: str) -> list[Any]:
    """The charts of a page, as its script draws them."""
    return [json.loads(html.unescape(text)) for text in re.findall(r'data-figure="(.*?)"', page)]


def test_trials_have_a_table_and_a_plot(board: Board, vtrain_home: Path) -> None:
    name = local_name("2001", collection=TUNING)
    add_job(vtrain_home, "2001", "tune", collection=TUNING, fields=tuning_document(name))
    page = board.page(f"/jobs/local/us-central1/{TUNING}/2001")
    assert "4 of 4 trials, the best is 2: accuracy=0.91235" in text_of(page)
    figure, *by_parameter = figures_of(page)
    line, dots = figure["data"]
    assert line["y"] == [0.5, 0.9123456, 0.9123456] and dots["y"] == [0.5, 0.9123456, 0.75]
    assert dots["x"] == [1, 2, 4] and dots["text"][1] == "Trial 2: 0.91235"
    assert len(set(dots["marker"]["color"])) == 2, "the best has a colour of its own"
    axes = {each["layout"]["xaxis"]["title"]["text"]: each["layout"]["xaxis"] for each in by_parameter}
    assert axes["rate"]["type"] == "log" and "type" not in axes["units"]
    assert re.search(r'<tr class="best">\s*<td>2 \*</td>\s*<td>Succeeded</td>', page)


WRITES = """
import json, os, pathlib
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / {name!r}).write_text({text!r})
"""


@pytest.mark.parametrize(
    ("name", "text", "charts", "words"),
    [
        ("metrics.json", '{"accuracy": 0.75, "test": {"loss": 2}}', 0, ["accuracy 0.75", "test.loss 2"]),
        ("history.json", '{"loss": [3, 2, 1], "name": "x"}', 1, ["step 3: 1"]),
        (
            "metrics.jsonl",
            '{"step": 5, "loss": 3}\n{"step": 9, "loss": 1, "rate": 1}\n{"ste',
            1,
            ["step 9: 1"],
        ),
        ("trainer_state.json", '{"log_history": [{"step": 1, "loss": 1}, {"step": 2, "loss": 0.5}]}', 1, []),
        ("metrics.json", '[{"loss": NaN}, {"loss": 1e999}]', 0, []),
        ("metrics.json", "[" * 100_000, 0, []),
        ("metrics.json", '{"loss": [1e299, -1e299, 1e308]}', 1, []),
        ("metrics.json", '{"loss": [5e-324, 0, 5e-324]}', 1, []),
        ("metrics.json", '{"loss": [7, 7, 7]}', 1, []),
    ],
)
def test_numbers_in_files_are_drawn(
    board: Board, run: Any, name: str, text: str, charts: int, words: list[str]
) -> None:
    page = board.page(run(WRITES.format(name=name, text=text)))
    assert len(figures_of(page)) == charts
    shown = text_of(page)
    for each in words:
        assert each in shown


def test_a_job_that_was_deleted_is_not_found(board: Board, run: Any, vtrain: Any) -> None:
    address = run("print(1)")
    board.page(address)
    assert vtrain("custom-jobs", "delete", address.rpartition("/")[2], "--backend=local").code == 0
    for part in ("", "/log", "/files", "/file?path=a"):
        assert "All jobs" in board.page(f"{address}{part}", 404)
    assert board("GET", f"{address}/log/lines").status == 404


def test_a_damaged_entry_is_named_and_the_others_are_shown(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "sound")
    store = Store.open(vtrain_home)
    store.insert(
        Record(
            name=local_name("1002"),
            collection="customJobs",
            state=states.SUCCEEDED,
            create_time="2026-11-01T10:00:00Z",
            end_time="",
            backend="process",
            document="{",
        )
    )
    store.close()
    page = board.page("/")
    assert len(rows_of(page)) == 1 and local_name("1002") in page
    assert "damaged" in board.page("/jobs/local/us-central1/customJobs/1002", 500)


def test_a_damaged_resource_does_not_hide_the_jobs(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "sound")
    name = local_name("slots", collection="persistentResources")
    with closing(sqlite3.connect(vtrain_home / DATABASE)) as connection, connection:
        values = (name, "local", "us-central1", "{", "")
        connection.execute(
            "INSERT INTO persistent_resources (name, project, location, document, preload)"
            " VALUES (?, ?, ?, ?, ?)",
            values,
        )
    page = board.page("/")
    assert len(rows_of(page)) == 1
    assert f"1 entry in the store is damaged and not listed: {name}." in page


@pytest.mark.parametrize(
    "path", ["/nothing", "/jobs", "/jobs/a/b/c/d", "/jobs/local/us-central1/models/1", "/dashboard/x"]
)
def test_other_addresses_are_not_found(board: Board, path: str) -> None:
    assert "All jobs" in board.page(path, 404)


@pytest.mark.parametrize(
    "fields",
    [
        {"jobSpec": {}},
        {"jobSpec": {"workerPoolSpecs": [{}, {"replicaCount": "2"}]}},
        {"createTime": "", "startTime": "x", "endTime": ""},
        {"error": {"code": 3}, "state": states.FAILED},
        {"state": states.CANCELLED, "error": {"message": "CANCELED: by a user"}},
        {"labels": {"vtrain-hp-tuning-job": "1", "vtrain-training-pipeline": "//"}},
    ],
)
def test_a_job_of_which_little_is_known(board: Board, vtrain_home: Path, fields: dict[str, Any]) -> None:
    add_job(vtrain_home, "1001", "job", state=fields.get("state", states.SUCCEEDED), fields=fields)
    for path in ("/", *(f"/jobs/local/us-central1/customJobs/1001{part}" for part in ("", "/log"))):
        board.page(path)


@pytest.mark.parametrize(
    ("collection", "fields"),
    [
        (TUNING, {"trials": [{"id": "1"}, {"id": "1", "customJob": "x"}]}),
        (TUNING, {"studySpec": {}, "maxTrialCount": 0}),
        (PIPELINES, {"trainingTaskInputs": {"workerPoolSpecs": "x"}}),
        (PIPELINES, {"trainingTaskDefinition": "gs://google-cloud-aiplatform/schema/trainingjob/definition/"
                     "custom_task_1.0.0.yaml", "trainingTaskInputs": {"workerPoolSpecs": "x"}}),
    ],
)  # fmt: skip
def test_a_parent_of_which_little_is_known(
    board: Board, vtrain_home: Path, collection: str, fields: dict[str, Any]
) -> None:
    state = "PIPELINE_STATE_SUCCEEDED" if collection == PIPELINES else states.SUCCEEDED
    add_job(vtrain_home, "1001", "job", state=state, collection=collection, fields={"jobSpec": None} | fields)
    for path in ("/", *(f"/jobs/local/us-central1/{collection}/1001{part}" for part in ("", "/log"))):
        board.page(path)
