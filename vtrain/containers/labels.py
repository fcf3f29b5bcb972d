"""The labels by which all that vtrain makes on an engine is found again."""

from __future__ import annotations

KIND_LABEL = "vtrain.kind"
"""On images: `image` for one that `package image` made, `runtime` for an executor image with dependencies."""
CONTENT_LABEL = "vtrain.content"
"""On images: the hash of what went in."""
BASE_LABEL = "vtrain.base"
"""On images: the ids of the images that it was built on."""
JOB_LABEL = "vtrain.job"
"""On containers and networks: the job's id."""
REPLICA_LABEL = "vtrain.replica"
ATTEMPT_LABEL = "vtrain.attempt"
HOME_LABEL = "vtrain.home"
"""On containers and networks: which vtrain home the job belongs to."""
IMAGE_HOME_LABEL = "vtrain.image-home"
"""On images: the vtrain home that made it. Not `HOME_LABEL`, which every container of it would inherit."""
