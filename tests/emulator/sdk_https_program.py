"""A program that makes Google's library use REST unasked, and asks the API by HTTPS itself."""

import os

import google.auth
import requests
from google.auth.transport.requests import AuthorizedSession
from google.cloud import aiplatform

REGION = "us-central1"
JOBS = f"https://{REGION}-aiplatform.googleapis.com/v1/projects/demo/locations/{REGION}/customJobs"

aiplatform.init(location=REGION, staging_bucket="gs://stage")  # without a project it takes REST
assert aiplatform.initializer.global_config._api_transport == "rest"
before = {each.resource_name for each in aiplatform.CustomJob.list()}
job = aiplatform.CustomJob(
    display_name="job",
    worker_pool_specs=[
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "python_package_spec": {
                "executor_image_uri": "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
                "python_module": "timeit",
                "args": ["-n1", "-r1", "import time; time.sleep(600)"],
            },
        }
    ],
)
job.submit()
assert {each.resource_name for each in aiplatform.CustomJob.list()} - before == {job.resource_name}

credentials, project = google.auth.default()
session = AuthorizedSession(credentials)
found = session.get(JOBS).json()["customJobs"]
assert "job" in [each["displayName"] for each in found], found
assert requests.get(JOBS, timeout=60).json()["customJobs"][0]["name"] == found[0]["name"]
bearer = {"Authorization": f"Bearer {credentials.token}"}
assert requests.get(JOBS, headers=bearer, timeout=60).json()["customJobs"][0]["name"] == found[0]["name"]
for origin in ("https://us-central1-aiplatform.googleapis.com", "https://example.com"):
    assert requests.get(JOBS, headers=bearer | {"Origin": origin}, timeout=60).status_code == 403

project = session.get(f"https://cloudresourcemanager.googleapis.com/v1/projects/{project}").json()
assert project["projectId"] == os.environ["GOOGLE_CLOUD_PROJECT"], project
for host in ("storage", "www"):
    store = f"https://{host}.googleapis.com"
    upload = session.post(f"{store}/upload/storage/v1/b/stage/o?uploadType=resumable&name={host}", json={})
    assert upload.headers["Location"].startswith(f"{store}/"), upload.headers
    assert session.put(upload.headers["Location"], data=b"content").json()["size"] == "7"
    assert session.get(f"{store}/download/storage/v1/b/stage/o/{host}?alt=media").content == b"content"
assert session.get("https://storage.googleapis.com/stage/www").content == b"content"
assert session.get("https://storage.googleapis.com/jobs/x").status_code == 404  # not the page of that name
entries = session.post(
    "https://logging.googleapis.com/v2/entries:list", json={"resourceNames": ["projects/demo"]}
)
assert "error" not in entries.json() or entries.status_code == 400, entries.text
public = requests.get("https://storage.googleapis.com/a.b/c%20d?x=1", allow_redirects=False, timeout=60)
assert public.headers["Location"] == "https://commondatastorage.googleapis.com/a.b/c%20d?x=1", public.headers
refused = session.get("https://bigquery.googleapis.com/bigquery/v2/projects/demo/datasets")
assert "does not emulate GET https://bigquery.googleapis.com/bigquery/v2/" in refused.text, refused.text
job.cancel()
print("done")
