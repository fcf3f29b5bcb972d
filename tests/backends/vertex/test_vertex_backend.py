"""Every verb of the backend, on every collection, against the service on loopback."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from lib.vertex_jobs import CLUSTER, CUSTOM_JOB, PARENT, PIPELINE, SPEC, TUNING_JOB, settings_at
from lib.vertex_service import VertexService

from vtrain.backends import Query, ServiceAccess
from vtrain.backends.vertex.vertex_backend import VertexBackend, laid_over, open_vertex
from vtrain.errors import ConfigError, ConflictError, NotFoundError, ServiceError
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, MachineSpec, Scheduling, WorkerPoolSpec
from vtrain.messages.resources import Job, collection_of
from vtrain.messages.states import job_state
from vtrain.messages.structs import GcsDestination

JOBS = [pytest.param(job, id=collection_of(job)) for job in (CUSTOM_JOB, TUNING_JOB, PIPELINE)]


@pytest.mark.parametrize("job", JOBS)
def test_the_life_of_a_job(vertex: VertexService, backend: VertexBackend, job: Job) -> None:
    collection = collection_of(job)
    made = backend.submit(backend.plan(job))
    assert made.name.startswith(f"{PARENT}/{collection}/")
    assert job_state(made.state) == "JOB_STATE_PENDING"
    assert vertex.requests[0].body == to_document(job)
    assert backend.get(made.name) == made
    assert backend.list(Query(collection=collection, project="demo")).jobs == (made,)
    with pytest.raises(ConflictError, match="FAILED_PRECONDITION"):
        backend.delete(made.name)
    backend.cancel(made.name)
    backend.cancel(made.name)
    assert job_state(backend.get(made.name).state) == "JOB_STATE_CANCELLED"
    backend.delete(made.name)
    with pytest.raises(NotFoundError):
        backend.get(made.name)
    assert set(vertex.calls()) == {
        f"POST /v1/{PARENT}/{collection}",
        f"GET /v1/{PARENT}/{collection}",
        f"GET /v1/{made.name}",
        f"POST /v1/{made.name}:cancel",
        f"DELETE /v1/{made.name}",
    }


def test_the_life_of_a_persistent_resource(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.polls_until_done = 1
    name = f"{PARENT}/persistentResources/cluster"
    operation = backend.create_resource("cluster", CLUSTER, {})
    assert operation.name.startswith(f"{name}/operations/")
    assert not operation.done
    assert vertex.requests[0].target.startswith(f"/v1/{PARENT}/persistentResources?")
    assert vertex.requests[0].query == {"alt": "json", "persistentResourceId": "cluster"}
    assert vertex.requests[0].body == to_document(CLUSTER)
    found = backend.get_resource(name)
    assert (found.state, found.resource_pools) == ("PROVISIONING", CLUSTER.resource_pools)
    query = Query(collection="persistentResources", project="demo", location="us-central1")
    assert backend.list_resources(query).resources == (found,)
    assert not backend.reboot_resource(name).done
    assert not backend.delete_resource(name).done
    assert vertex.calls()[-2:] == [f"POST /v1/{name}:reboot", f"DELETE /v1/{name}"]


def test_a_delete_waits_until_the_job_is_gone(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.polls_until_done = 3
    name = str(vertex.put(f"{PARENT}/customJobs/5", state="JOB_STATE_FAILED")["name"])
    backend.delete(name)
    polls = [call for call in vertex.calls() if "/operations/" in call]
    assert len(polls) == 3
    assert polls[0].startswith(f"GET /v1/{name}/operations/")


def test_lists_come_in_pages_and_select_by_label(vertex: VertexService, backend: VertexBackend) -> None:
    for number in range(5):
        vertex.put(f"{PARENT}/customJobs/{number}", labels={"team": "a" if number % 2 else "b"})
    query = Query(project="demo", location="us-central1", page_size=2)
    names, token = [], ""
    while True:
        page = backend.list(Query(project="demo", page_size=2, page_token=token))
        names += [job.name.rpartition("/")[2] for job in page.jobs]
        token = page.next_page_token
        if not token:
            break
    assert names == ["4", "3", "2", "1", "0"]
    assert [request.query.get("pageSize") for request in vertex.requests] == ["2", "2", "2"]
    labelled = backend.list(Query(project="demo", labels={"team": "a"}))
    assert [job.labels for job in labelled.jobs] == [{"team": "a"}] * 2
    assert vertex.requests[-1].query["filter"] == 'labels.team="a"'
    assert len(backend.list(query).jobs) == 2


def test_beta_commands_speak_v1beta1(vertex: VertexService, tmp_path: Path) -> None:
    backend = open_vertex(settings_at(tmp_path, ServiceAccess(api_version="v1beta1")))
    vertex.polls_until_done = 1
    backend.create_resource("c1", CLUSTER, {})
    name = backend.submit(backend.plan(CUSTOM_JOB)).name
    backend.cancel(name)
    backend.delete(name)
    assert all(" /v1beta1/projects/" in call for call in vertex.calls())


def test_what_the_library_does_not_know_is_sent_and_shown(
    vertex: VertexService, backend: VertexBackend
) -> None:
    unknown = {"jobSpec": {"workerPoolSpecs": [{"color": "blue"}], "mood": 1}}
    plan = backend.plan(with_strategy("NEWER_THAN_US"))
    told = {"name": f"{PARENT}/customJobs/7", "state": "JOB_STATE_ODD", "shade": [1], "startTime": ""}
    vertex.answer(json.dumps(told).encode(), times=2)
    made = backend.submit(msgspec.structs.replace(plan, unknown_fields=unknown))
    spec = vertex.requests[0].body["jobSpec"]
    assert (spec["mood"], spec["workerPoolSpecs"][0]["color"]) == (1, "blue")
    assert spec["scheduling"] == {"strategy": "NEWER_THAN_US"}
    for found in (made, backend.get(made.name)):
        assert (found.state, found.answer) == ("JOB_STATE_ODD", told)


def test_an_unknown_operation_type_is_no_trouble(vertex: VertexService, backend: VertexBackend) -> None:
    document = {"name": f"{PARENT}/operations/1", "done": True, "response": {"@type": "x/y.Z", "a": 1}}
    vertex.answer(json.dumps(document).encode(), method="DELETE")
    assert backend.delete_resource(f"{PARENT}/persistentResources/p").answer == document


def test_a_failed_operation_is_told(vertex: VertexService, backend: VertexBackend) -> None:
    document = {"name": f"{PARENT}/operations/1", "done": True, "error": {"code": 9, "message": "In use."}}
    vertex.answer(json.dumps(document).encode(), method="DELETE")
    with pytest.raises(ServiceError, match="In use"):
        backend.delete(f"{PARENT}/customJobs/1")


def test_odd_projects_and_ids_are_sent_as_they_are(vertex: VertexService, backend: VertexBackend) -> None:
    name = "projects/example.com:demo/locations/us-central1/customJobs/a.b"
    vertex.put(name)
    assert backend.get(name).name == name
    backend.create_resource("Bad Id!", CLUSTER, {})
    assert vertex.requests[-1].query["persistentResourceId"] == "Bad Id!"


@pytest.mark.parametrize(
    "name", ["1", f"{PARENT}/datasets/1", f"{PARENT}/customJobs/a?b", f"{PARENT}/customJobs/%2e"]
)
def test_other_names_are_refused_here(vertex: VertexService, backend: VertexBackend, name: str) -> None:
    with pytest.raises(ConfigError):
        backend.get(name)
    assert vertex.requests == []


def test_plan_is_pure_and_says_what_may_be_refused(vertex: VertexService, backend: VertexBackend) -> None:
    plan = backend.plan(CUSTOM_JOB)
    assert (plan.job, plan.replicas, plan.notices) == (CUSTOM_JOB, (), ())
    unnamed = backend.plan(CustomJob(job_spec=SPEC))
    assert "displayName" in unnamed.doubts[0]
    assert vertex.requests == []


def test_a_pool_without_a_task_is_refused_before_anything_is_sent(backend: VertexBackend) -> None:
    pool = WorkerPoolSpec(machine_spec=MachineSpec(machine_type="n1-standard-4"))
    job = CustomJob(
        display_name="x", job_spec=CustomJobSpec(worker_pool_specs=(*SPEC.worker_pool_specs, pool))
    )
    with pytest.raises(ConfigError, match=r"workerPoolSpecs\[1\]"):
        backend.plan(job)


def test_fields_are_laid_over_at_every_depth() -> None:
    below = {"a": {"b": 1}, "pools": [{"x": 1}, {}]}
    above = {"a": {"c": 2}, "pools": [{}, {"y": 2}, {"z": 3}]}
    assert laid_over(below, above) == {"a": {"b": 1, "c": 2}, "pools": [{"x": 1}, {"y": 2}, {"z": 3}]}


def with_strategy(strategy: str) -> CustomJob:
    spec = msgspec.structs.replace(SPEC, scheduling=Scheduling(strategy=strategy))
    return msgspec.structs.replace(CUSTOM_JOB, job_spec=spec)


@pytest.mark.parametrize("job", [CUSTOM_JOB, TUNING_JOB])
def test_an_output_folder_outside_of_cloud_storage_is_told(backend: VertexBackend, job: Job) -> None:
    output = GcsDestination(output_uri_prefix="my-bucket/x")
    spec = msgspec.structs.replace(SPEC, base_output_directory=output)
    field = "job_spec" if isinstance(job, CustomJob) else "trial_job_spec"
    notices = backend.plan(msgspec.structs.replace(job, **{field: spec})).doubts
    assert [notice for notice in notices if "'my-bucket/x'" in notice] == list(notices) != []
