"""Hypothesis strategies: any message of the API at all, and jobs that keep the API's rules."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from vtrain.messages.codec import Field, fields
from vtrain.messages.custom_job import (
    CustomJob,
    CustomJobSpec,
    EnvVar,
    GcsDestination,
    WorkerPoolSpec,
)

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True),
    st.from_regex(r"[a-z0-9_-]{0,8}", fullmatch=True),
    max_size=3,
)
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
"""All but NUL, which vtrain refuses in whatever it reads."""
JSON = st.dictionaries(
    st.text(CHARACTERS, max_size=5), st.booleans() | st.text(CHARACTERS, max_size=5) | st.none(), max_size=2
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(CHARACTERS, max_size=12),
    "enum": st.from_regex(r"[A-Z][A-Z0-9_]{0,12}", fullmatch=True),
    "duration": st.from_regex(r"(0|[1-9][0-9]{0,5})(\.[0-9]{1,9})?s", fullmatch=True),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "map": st.dictionaries(st.text(CHARACTERS, max_size=5), st.text(CHARACTERS, max_size=5), max_size=3),
    "document": JSON,
    "double": st.integers(-9999, 9999).map(lambda number: number / 4),  # no more digits than YAML shows
    "value": JSON,
}


def messages(cls: type[msgspec.Struct], **overrides: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any value of a message; `overrides` replace the strategies of single attributes."""
    attributes = {field.attribute: _values(field) for field in fields(cls).values()} | overrides
    return st.fixed_dictionaries({}, optional=attributes).map(lambda values: cls(**values))


def _values(field: Field) -> st.SearchStrategy[Any]:
    if field.names:
        one: st.SearchStrategy[Any] = st.sampled_from(field.names)
    else:
        one = st.deferred(lambda: messages(field.message)) if field.message else KINDS[field.kind]
    return st.lists(one, max_size=3).map(tuple) if field.repeated else one


URIS = st.from_regex(r"gs://[a-z][a-z0-9]{3,8}/[a-z0-9]{1,8}", fullmatch=True)
ENV = st.dictionaries(NAMES, st.text(CHARACTERS, max_size=8), max_size=3).map(
    lambda env: tuple(EnvVar(name=name, value=value) for name, value in env.items())
)


@st.composite
def _pools(draw: st.DrawFn) -> WorkerPoolSpec:
    """A pool that the rules allow."""
    pool = draw(messages(WorkerPoolSpec, replica_count=st.integers(1, 3)))
    task = draw(st.sampled_from(["container_spec", "python_package_spec"]))
    required = "image_uri" if task == "container_spec" else "python_module"
    cls = fields(WorkerPoolSpec)["containerSpec" if task == "container_spec" else "pythonPackageSpec"].message
    assert cls is not None
    uris = {} if task == "container_spec" else {"package_uris": st.lists(URIS, max_size=2).map(tuple)}
    given = {required: draw(st.text(CHARACTERS, min_size=1, max_size=9))}
    spec = msgspec.structs.replace(draw(messages(cls, env=ENV, **uris)), **given)
    tasks = {"container_spec": None, "python_package_spec": None, task: spec}
    pool = msgspec.structs.replace(pool, replica_count=max(pool.replica_count, 1), disk_spec=None, **tasks)
    machine = pool.machine_spec
    if machine is not None and (machine.accelerator_count == 0 or machine.accelerator_type in UNSPECIFIED):
        machine = msgspec.structs.replace(machine, accelerator_count=0, accelerator_type="")
    return msgspec.structs.replace(pool, machine_spec=machine)


UNSPECIFIED = ("", "ACCELERATOR_TYPE_UNSPECIFIED")


@st.composite
def valid_jobs(draw: st.DrawFn) -> CustomJob:
    """A job as a user may ask for it: every field of the API, none that only the service writes."""
    pools = draw(st.lists(_pools(), min_size=1, max_size=3))
    if len(pools) > 1:
        pools[0] = msgspec.structs.replace(pools[0], replica_count=1)
    output_directory = st.none() | URIS.map(lambda uri: GcsDestination(output_uri_prefix=uri))
    spec = draw(
        messages(CustomJobSpec, worker_pool_specs=st.just(()), base_output_directory=output_directory)
    )
    if spec.tensorboard and not spec.service_account:
        spec = msgspec.structs.replace(spec, service_account="trainer@demo-1.iam.gserviceaccount.com")
    job: CustomJob = draw(messages(CustomJob, labels=st.just({}), job_spec=st.just(CustomJobSpec())))
    output = {
        field.attribute: field.default
        for field in fields(CustomJob).values()
        if field.name in CustomJob.output_fields
    }
    return msgspec.structs.replace(
        job,
        **output,
        display_name=draw(st.text(CHARACTERS, min_size=1, max_size=20)),
        labels=draw(LABELS),
        job_spec=msgspec.structs.replace(spec, worker_pool_specs=tuple(pools)),
    )
