"""What a worker of Prefect does with a flow run on Vertex AI; the image of the flow is its argument."""

import asyncio
import sys
from uuid import uuid4

from prefect.client.schemas.objects import FlowRun
from prefect_gcp.credentials import GcpCredentials
from prefect_gcp.workers.vertex import VertexAIWorker, VertexAIWorkerJobConfiguration

pool = {
    "replica_count": 1,
    "container_spec": {"image_uri": sys.argv[1], "command": "python3 -m this", "args": []},
    "machine_spec": {"machine_type": "n1-standard-4"},
    "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 100},
}
configuration = VertexAIWorkerJobConfiguration(
    name="flow",
    env={"LOG_LEVEL": "INFO"},
    region="us-central1",
    credentials=GcpCredentials(project="demo"),
    job_spec={
        "worker_pool_specs": [pool],
        "maximum_run_time_hours": 1,
        "service_account_name": "me@demo.iam.gserviceaccount.com",
    },
    job_watch_poll_interval=1,
)
flow_run = FlowRun(name="flow", flow_id=uuid4())
configuration.prepare_for_flow_run(flow_run)
result = asyncio.run(VertexAIWorker("pool").run(flow_run, configuration))
assert result.status_code == 0 and result.identifier.startswith("flow-"), result
print("done")
