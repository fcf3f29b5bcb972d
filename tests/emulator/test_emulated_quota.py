"""The quota of jobs that an emulator keeps where one is set."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lib.emulator_service import PARENT, emulator_service, ended, job_document, refusal
from lib.storage_service import Http

from vtrain.testing.script import Script

MOST = 2
SERVE = partial(emulator_service, aip_dirs="local", most_jobs=MOST)


def test_a_job_over_the_quota_is_refused_until_another_ends(http: Http) -> None:
    made = [http("POST", f"{PARENT}/customJobs", job_document(Script().hang())) for _ in range(MOST)]
    assert [each.status for each in made] == [200] * MOST
    for path in ("customJobs", "hyperparameterTuningJobs"):
        assert http("POST", f"{PARENT}/{path}", {}).status == 400  # what is wrong is told first
    refused = http("POST", f"{PARENT}/customJobs", job_document(Script()))
    refusal(refused, 429, "RESOURCE_EXHAUSTED")
    assert "quota metrics exceed quota limits" in refused.document["error"]["message"]
    region = PARENT.replace("us-central1", "europe-west4")
    elsewhere = http("POST", f"{region}/customJobs", job_document(Script()))
    assert elsewhere.status == 200
    end(http, made.pop().document["name"])
    again = http("POST", f"{PARENT}/customJobs", job_document(Script()))
    assert again.status == 200
    for each in (*made, elsewhere, again):
        end(http, each.document["name"])


def end(http: Http, name: str) -> None:
    """Cancel a job, which may have ended already, and see its end."""
    http("POST", f"/v1/{name}:cancel", {})
    ended(http, name)


def test_clients_at_once_do_not_pass_the_quota_together(url: str, http: Http) -> None:
    def create(_: int) -> tuple[int, str]:
        own = Http(url)
        answer = own("POST", f"{PARENT}/customJobs", job_document(Script().hang()))
        own.connection.close()
        return answer.status, answer.document.get("name", "")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(create, range(8)))
    assert sorted(status for status, _ in answers) == [200] * MOST + [429] * 6
    for status, name in answers:
        if status == 200:
            end(http, name)
