"""The recorded runs in which vtrain differs from gcloud on purpose: why, and what each shows."""

from __future__ import annotations

from typing import Any

import msgspec

MOST = 26
"""How many there may be."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference that is intended, and everything that the run shows.

    `sends` are the requests as `METHOD path`, `body` is the message of the last one, `says` a whole line on
    stderr. `answers` are what the service says, by `METHOD path`, to requests that gcloud did not send.
    """

    reason: str
    exit_code: int
    sends: tuple[str, ...] = ()
    body: Any = None
    stdout: str = ""
    says: str = ""
    answers: dict[str, Any] = {}


_TEXT = "n and yes are text where text belongs: YAML is read with the scalars of YAML 1.2"
_REPEATED = "a trainer may be given the same argument twice"
_UNKNOWN = "a field that the API does not have is refused, or sent with --allow-unknown-fields"
_LOST = "every line of the log is shown once, in order, late ones too; gcloud drops some"
_NOT_BUILT = "an image whose build or start would fail is refused before it is built"
_NO_PACKAGE = "a package that is none (the recorded one is a file with an x) is refused"

_JOBS = "/v1/projects/demo/locations/us-central1/customJobs"
_SUBMITTED = {f"POST {_JOBS}": {"name": f"{_JOBS[4:]}/456", "state": "JOB_STATE_PENDING"}}
_QUERY = {
    "resourceNames": ["projects/demo"],
    "filter": 'resource.type="ml_job" AND resource.labels.job_id="1001" '
    'AND timestamp>="1970-01-01T01:00:00.000000000Z"',
    "orderBy": "timestamp asc",
    "pageSize": 1000,
}


def _job(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The CustomJob of the recorded runs, with one replica of this container."""
    machine = {"machineType": "n1-standard-4"}
    pool = {"machineSpec": machine, "replicaCount": "1", "containerSpec": container}
    return {"displayName": "t", "jobSpec": {"workerPoolSpecs": [pool], **spec}}


def _submitted(reason: str, body: dict[str, Any]) -> Difference:
    """A job that vtrain submits, and gcloud refuses."""
    return Difference(reason=reason, exit_code=0, sends=(f"POST {_JOBS}",), body=body, answers=_SUBMITTED)


def _refused(reason: str, says: str, *, exit_code: int = 1) -> Difference:
    """A line that sends nothing."""
    return Difference(reason=reason, exit_code=exit_code, says=says)


def _log(reason: str, *lines: str) -> Difference:
    """The lines of a log, each as severity, second of 10:01, replica and message."""
    fields = (line.split("|", 3) for line in lines)
    text = "".join(
        f"{what}\t2026-01-03 10:01:{second} +0000\t{who}\t{message}\n"
        for what, second, who, message in fields
    )
    sends = (f"GET {_JOBS}/1001", "POST /v2/entries:list")
    return Difference(reason=reason, exit_code=0, sends=sends, body=_QUERY, stdout=text)


DIFFERENCES: dict[str, Difference] = {
    "cfg.bad-type-env-bool": _submitted(
        _TEXT,
        _job(
            {
                "imageUri": "gcr.io/p/cfg:1",
                "command": ["cfgcmd"],
                "args": ["fromcfg"],
                "env": [{"name": "A", "value": "yes"}],
            }
        ),
    ),
    "cfg.yaml11-n-is-false": _submitted(
        _TEXT, _job({"imageUri": "gcr.io/p/cfg:1", "command": ["cfgcmd"], "args": ["fromcfg"]}, network="n")
    ),
    "cfg.yaml-anchor": _refused(_UNKNOWN, "ERROR: c.yaml:1: x: CustomJobSpec has no field 'x'."),
    "cfg.yaml-duplicate-key": _refused(
        "a key that stands twice is refused; gcloud takes the first of the two",
        "ERROR: c.yaml:10: not a YAML document: the key 'network' stands here twice.",
    ),
    "createerr.args-duplicate-across": _submitted(
        _REPEATED, _job({"imageUri": "gcr.io/p/img:1", "args": ["x", "x"]})
    ),
    "flagsfile.args-with-duplicates": _submitted(
        _REPEATED, _job({"imageUri": "gcr.io/p/img:1", "args": ["a", "a"]})
    ),
    "createerr.remainder": _submitted(
        "what follows -- are the trainer's arguments",
        _job({"imageUri": "gcr.io/p/img:1", "args": ["--lr=1"]}),
    ),
    "describe.url": Difference(
        reason="a name may be given as the URL that --uri prints",
        exit_code=0,
        sends=("GET /v1/projects/p/locations/us-central1/customJobs/1001",),
        stdout=("name: projects/p/locations/us-central1/customJobs/1001\nstate: JOB_STATE_RUNNING\n"),
        answers={
            "GET /v1/projects/p/locations/us-central1/customJobs/1001": {
                "name": "projects/p/locations/us-central1/customJobs/1001",
                "state": "JOB_STATE_RUNNING",
            }
        },
    ),
    "create.response-no-name": Difference(
        reason="an empty answer to a create is no job: it is looked for, and not made again",
        exit_code=1,
        sends=(
            f"POST {_JOBS}",
            f'GET {_JOBS}?filter=display_name="t"&pageSize=100',
            f'GET {_JOBS}?filter=display_name="t"&pageSize=100',
        ),
        says="ERROR: The service answered the create with no CustomJob.",
        answers={f"GET {_JOBS}": {}},
    ),
    "servererr.create-503-once": Difference(
        reason="a create is made again only after the job was looked for",
        exit_code=0,
        sends=(
            f"POST {_JOBS}",
            f'GET {_JOBS}?filter=display_name="t"&pageSize=100',
            f'GET {_JOBS}?filter=display_name="t"&pageSize=100',
            f"POST {_JOBS}",
        ),
        body={
            "displayName": "t",
            "jobSpec": {
                "workerPoolSpecs": [
                    {
                        "machineSpec": {"machineType": "n1-standard-4"},
                        "replicaCount": "1",
                        "containerSpec": {"imageUri": "gcr.io/p/img:1"},
                    }
                ]
            },
        },
        says="UNAVAILABLE: x Trying again.",
        answers={f"GET {_JOBS}": {}},
    ),
    "list.object": _refused(
        "the format object prints Python objects of gcloud itself", "ERROR: Unknown format [object]."
    ),
    "logs.two-batches": _log(
        _LOST,
        "INFO|00|workerpool0-0|plain text",
        "WARNING|01|workerpool0-0|json message",
        "ERROR|02|workerpool0-0|line 1",
        "ERROR|02|workerpool0-0|line 2",
        "ERROR|02|workerpool0-0|",
        "ERROR|02|workerpool0-0|line 4",
        "DEFAULT|03|workerpool1-0|",
        "DEBUG|04|workerpool0-0|",
        "DEFAULT|05|unknown_task|no task",
        "DEFAULT|06|workerpool0-0|",
        "NOTICE|07|workerpool0-0|tab\there  trailing  ",
        "CRITICAL|08|workerpool0-0|héllo 東京",
        "DEFAULT|00|workerpool0-0|late entry is dropped",
        "DEFAULT|09|workerpool0-0|second batch",
    ),
    "logs.same-timestamp": _log(
        _LOST,
        "DEFAULT|00|workerpool0-0|smaller id dropped",
        "DEFAULT|00|workerpool0-0|first",
        "DEFAULT|00|workerpool0-0|second",
    ),
    "logs.out-of-order": _log(
        _LOST, "DEFAULT|00|workerpool0-0|older dropped", "DEFAULT|05|workerpool0-0|newer"
    ),
    "logs.fraction-digits-order": _log(
        _LOST, "DEFAULT|05|workerpool0-0|five", "DEFAULT|05|workerpool0-0|five and a half"
    ),
    "logs.message-number": _log(
        "a message that is a number is shown; gcloud crashes", "DEFAULT|00|workerpool0-0|5"
    ),
    "localrun.script-uppercase-name": _refused(
        "a file that is no program is refused, where gcloud has bash run it",
        "ERROR: My-Train_v2.PY is no program. What runs is Python (.py), a notebook (.ipynb), a shell script "
        "(.sh) or a file that begins with #!.",
    ),
    "pkg.script-missing": _refused(_NOT_BUILT, "ERROR: There is no script nope.py in $WORK/app."),
    "pkg.script-outside-package": _refused(
        _NOT_BUILT, "ERROR: the script ../other.py lies outside $WORK/app."
    ),
    "pkg.newline-in-requirement": _refused(
        _NOT_BUILT, "ERROR: requirements: 'a\\nRUN evil' is not a requirement: it is not one line of text."
    ),
    "pkg.requirements-custom-delim": _refused(
        _NOT_BUILT,
        "ERROR: requirements: `b;c` is not a requirement: Expected a marker variable or quoted string.",
    ),
    "pkg.name-all-illegal": Difference(
        reason="an image is called unnamed where gcloud's has a name that no registry takes",
        exit_code=0,
        sends=(f"POST {_JOBS}",),
        body={
            "displayName": "éé",
            "jobSpec": {
                "workerPoolSpecs": [
                    {
                        "machineSpec": {"machineType": "n1"},
                        "replicaCount": "1",
                        "containerSpec": {"imageUri": "gcr.io/demo/cloudai-autogenerated/unnamed"},
                    }
                ]
            },
        },
    ),
    "localrun.extras": _refused(
        _NO_PACKAGE,
        "FAILED  main: foo.tar.gz is not a readable package: file could not be opened successfully.",
        exit_code=125,
    ),
    "localrun.extra-package-outside": _refused(
        _NO_PACKAGE,
        "FAILED  main: other.whl is not a readable package: File is not a zip file.",
        exit_code=125,
    ),
    "localrun.build-fails": _refused(
        "125 where the trainer cannot be run, not the code of docker build",
        "FAILED  main: The image cannot be built: FROM python:3.10 ended with exit code 5.",
        exit_code=125,
    ),
    "localrun.region-flag": Difference(
        reason="local-run takes --region: the trainer sees it as on Vertex AI",
        exit_code=0,
        stdout="a line of the trainer\n",
    ),
}
