"""`--aip-dirs`: AIP_MODEL_DIR as a gs:// URI with Cloud Storage behind it, or as a path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docker_jobs import docker_settings
from lib.local_jobs import PRIMARY, ended, folder_of, kill, kill_supervisor, lines, submit
from lib.waiting import wait_until

import vtrain.backends.job_storage as job_storage
from vtrain.backends import BackendSettings
from vtrain.backends.job_storage import StorageOrder
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.errors import ConfigError, UnavailableError
from vtrain.extras import install_command
from vtrain.messages import states
from vtrain.messages.custom_job import (
    CustomJob,
    CustomJobSpec,
    GcsDestination,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.runtime.folder import JobFolder, read_struct
from vtrain.runtime.locks import lock_holder

pytestmark = pytest.mark.end_to_end

# What a client library does with STORAGE_EMULATOR_HOST: the user information becomes Basic authentication.
CLIENT = """
import base64, os, sys, time, urllib.error, urllib.request
from urllib.parse import quote, urlsplit

uri = os.environ["AIP_MODEL_DIR"]
print("uri", uri, flush=True)
endpoint = urlsplit(os.environ["STORAGE_EMULATOR_HOST"])
assert os.environ["CLOUD_STORAGE_EMULATOR_ENDPOINT"] == endpoint.geturl()
user = base64.b64encode(f"{endpoint.username}:{endpoint.password}".encode()).decode()
base = f"http://{endpoint.hostname}:{endpoint.port}"
bucket, _, folder = uri.removeprefix("gs://").partition("/")


def ask(path, data=None):
    request = urllib.request.Request(base + path, data, {"Authorization": f"Basic {user}"})
    return urllib.request.urlopen(request).read()


name = quote(folder + "model.txt", safe="")
try:
    urllib.request.urlopen(base + f"/storage/v1/b/{bucket}")
except urllib.error.HTTPError as error:
    print("others get", error.code, flush=True)
ask(f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", b"weights")
print("uploaded", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
for _ in range(600):
    try:
        print("read", ask(f"/storage/v1/b/{bucket}/o/{name}?alt=media").decode())
        break
    except OSError:
        time.sleep(0.1)
"""
PATHS = """
import os, sys
folder = os.environ["AIP_MODEL_DIR"]
print("uri", folder)
print("endpoint", os.environ.get("STORAGE_EMULATOR_HOST"))
open(os.path.join(folder, "model.txt"), "w").write("weights")
"""
LIBRARY = """
import os
from google.cloud import storage

blob = storage.Blob.from_string(os.environ["AIP_MODEL_DIR"] + "model.txt", client=storage.Client())
blob.upload_from_string("weights")
print("read", blob.download_as_bytes().decode())
"""
OUTPUT = "gs://models/run"
Submit = Callable[..., tuple[LocalBackend, str]]


def job_of(
    tmp_path: Path,
    code: str,
    *args: str,
    image: str = "",
    output: str = OUTPUT,
    requirements: tuple[str, ...] = (),
) -> CustomJob:
    source = tmp_path / "source" / "task.py"
    source.parent.mkdir(exist_ok=True)
    source.write_text(code)
    plan = plan_sdist(TrainerSource(folder=source.parent, python_module="task", requirements=requirements))
    package = build_sdist(plan, tmp_path / "packages").sdist
    task = PythonPackageSpec(
        executor_image_uri=image, package_uris=(f"file://{package}",), python_module="task", args=args
    )
    spec = CustomJobSpec(
        worker_pool_specs=(WorkerPoolSpec(python_package_spec=task),),
        base_output_directory=GcsDestination(output_uri_prefix=output),
    )
    return CustomJob(display_name="x", job_spec=spec)


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def submitted(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Submit:
    """Submits a trainer with these output directories; the backend and the job's name."""
    settings = BackendSettings(home=home, project="local", region="us-central1")
    image = ""
    if request.param == "docker":
        request.getfixturevalue("docker_home")
        image = request.getfixturevalue("base_image")
        here = {"type": "bind", "source": str(tmp_path), "target": str(tmp_path)}
        settings = docker_settings(home)
        mounts = (*settings.options.mounts, msgspec.convert(here, type=type(settings.options.mounts[0])))
        options = msgspec.structs.replace(settings.options, mounts=mounts)
        settings = msgspec.structs.replace(settings, options=options)

    def submitted(
        aip_dirs: str, code: str, *args: str, requirements: tuple[str, ...] = ()
    ) -> tuple[LocalBackend, str]:
        backend = open_backend(request.param, msgspec.structs.replace(settings, aip_dirs=aip_dirs))
        assert isinstance(backend, LocalBackend)
        return backend, submit(backend, job_of(tmp_path, code, *args, image=image, requirements=requirements))

    return submitted


def service_of(folder: JobFolder) -> StorageOrder:
    order = read_struct(folder.path / "storage" / "order.json", StorageOrder)
    assert order is not None
    return order


def test_a_uri_with_storage_behind_it(submitted: Submit, home: Path, tmp_path: Path) -> None:
    """Also when supervisor and storage were killed meanwhile: both come back, storage at its address."""
    go = tmp_path / "go"
    backend, name = submitted("gs", CLIENT, str(go))
    folder = folder_of(home, name)
    wait_until(lambda: "uploaded" in lines(backend, name))
    assert (home / "buckets" / "models" / "run" / "model" / "model.txt").read_text() == "weights"
    service = service_of(folder)
    kill(lock_holder(folder.path / "storage" / "lock"))
    kill_supervisor(folder)
    wait_until(lambda: lock_holder(folder.path / "storage" / "lock") == 0)
    os.utime(folder.lock, (0, 0))
    backend.get(name)
    go.touch()
    assert ended(backend, name).state == states.SUCCEEDED
    told = [f"uri {OUTPUT}/model/", "others get 401", "uploaded", "read weights"]
    assert lines(backend, name)[:4] == told
    assert service_of(folder) == service
    assert lock_holder(folder.path / "storage" / "lock") == 0


@pytest.mark.pages
@pytest.mark.network
def test_google_s_own_library(submitted: Submit, home: Path) -> None:
    backend, name = submitted("gs", LIBRARY, requirements=("google-cloud-storage",))
    assert ended(backend, name).state == states.SUCCEEDED, lines(backend, name, "service")
    assert lines(backend, name)[:1] == ["read weights"]
    assert (home / "buckets" / "models" / "run" / "model" / "model.txt").read_text() == "weights"


def test_a_path(submitted: Submit, home: Path) -> None:
    backend, name = submitted("local", PATHS)
    assert ended(backend, name).state == states.SUCCEEDED
    uri, endpoint = lines(backend, name)[:2]
    assert uri.removeprefix("uri ") in (f"{home}/buckets/models/run/model/", "/gcs/models/run/model/")
    assert endpoint == "endpoint None"
    assert (home / "buckets" / "models" / "run" / "model" / "model.txt").read_text() == "weights"
    assert not (folder_of(home, name).path / "storage").exists()


def settings_with(home: Path, **fields: Any) -> BackendSettings:
    return BackendSettings(home=home, project="local", region="us-central1", aip_dirs="gs", **fields)


def test_what_cannot_be_is_refused_before_anything_starts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = open_backend("process", settings_with(home))
    with pytest.raises(ConfigError, match="has no gs:// URI"):
        backend.plan(job_of(tmp_path, "", output=f"file://{tmp_path}"))
    options = msgspec.structs.replace(settings_with(home).options, credentials_file="/key.json")
    with pytest.raises(ConfigError, match="would open the real ones"):
        open_backend("process", settings_with(home, options=options)).plan(job_of(tmp_path, ""))
    monkeypatch.setattr(job_storage, "find_spec", lambda name: None if name == "uvicorn" else name)
    with pytest.raises(UnavailableError, match=r"needs uvicorn") as refused:
        backend.plan(job_of(tmp_path, ""))
    assert refused.value.hint == f"Install it: {install_command('emulator')}"
    assert not home.exists()


def test_googles_address_of_storage_leads_here(home: Path, tmp_path: Path) -> None:
    (home / "buckets" / "stage").mkdir(parents=True)
    (home / "buckets" / "stage" / "a b").write_text("content")
    code = (
        "import os, urllib.error, urllib.request\n"
        'print(urllib.request.urlopen("https://storage.googleapis.com/stage/a%20b").read().decode())\n'
        "try:\n"
        '    urllib.request.urlopen("https://us-central1-aiplatform.googleapis.com/v1/x")\n'
        "except urllib.error.HTTPError as error:\n"
        "    print(error.code, error.read().decode())\n"
        'print(oct(os.stat(os.environ["SSL_CERT_FILE"]).st_mode))\n'
    )
    backend = open_backend("process", settings_with(home))
    assert isinstance(backend, LocalBackend)
    name = submit(backend, job_of(tmp_path, code))
    ended(backend, name)
    read, refused, mode = lines(backend, name, PRIMARY)[:3]
    assert (read, mode) == ("content", "0o100644")
    assert refused.startswith("405 ") and "does not emulate GET https://us-central1-aiplatform" in refused


@pytest.mark.gcloud
def test_gcloud_storage_needs_no_account(home: Path, tmp_path: Path) -> None:
    (home / "buckets" / "stage").mkdir(parents=True)
    (home / "buckets" / "stage" / "text").write_text("content")
    code = 'import subprocess\nsubprocess.run(["gcloud", "storage", "cat", "gs://stage/text"], check=True)\n'
    backend = open_backend("process", settings_with(home))
    assert isinstance(backend, LocalBackend)
    name = submit(backend, job_of(tmp_path, code))
    ended(backend, name)
    assert lines(backend, name, PRIMARY)[0] == "content"


def test_no_proxy_is_asked_for_storage(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "internal.example")
    code = 'from os import environ as e\nprint(e["NO_PROXY"], e["no_proxy"], e.get("NO_GCE_CHECK"))\n'
    backend = open_backend("process", settings_with(home))
    assert isinstance(backend, LocalBackend)
    name = submit(backend, job_of(tmp_path, code))
    ended(backend, name)
    assert lines(backend, name, PRIMARY)[:1] == [
        "internal.example,127.0.0.1,localhost internal.example,127.0.0.1,localhost None"
    ]
