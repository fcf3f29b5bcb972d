"""The environment variables that vtrain reads, and what each means: for the manual and the documentation."""

from __future__ import annotations

VARIABLES = {
    "VTRAIN_HOME": "the folder of everything that vtrain keeps; `~/.vtrain`",
    "VTRAIN_BACKEND": "the backend, if `--backend` is not given",
    "VTRAIN_STAGING_BUCKET": "the staging bucket, if `--staging-bucket` is not given",
    "VTRAIN_LOG": (
        "the file of vtrain's own log, instead of `logs/vtrain.log` in its home; its folder has to exist"
    ),
    "VTRAIN_MEMORY": "the memory for all jobs on this machine together, such as `16g`; `none`: no limit",
    "VTRAIN_ACCELERATORS": (
        "the GPUs for all jobs on this machine together: indexes such as `0,2`, UUIDs, `none`"
    ),
    "VTRAIN_NOTIFY": (
        "what `--notify` tells besides the terminal: a command, which gets the sentence as its"
        ' last word, or a `https://` address, which gets `{"text": …}` as chats do. No file of a'
        " project can set it"
    ),
    "VTRAIN_GRACE_SECONDS": "seconds between SIGTERM and SIGKILL when vtrain stops a replica; 30",
    "CLOUDSDK_CORE_PROJECT CLOUDSDK_AI_REGION CLOUDSDK_CONFIG CLOUDSDK_ACTIVE_CONFIG_NAME": (
        "project, region, folder of configurations and the active one, as in gcloud"
    ),
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING"
    " CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": (
        "other addresses for Vertex AI, Cloud Logging and Cloud Storage"
    ),
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": (
        "set by `emulator env` for gcloud; vtrain does not read them"
    ),
    "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "`true`: send requests without credentials",
    "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE"
    " CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT CLOUDSDK_BILLING_QUOTA_PROJECT": (
        "the identity and the quota for requests, as in gcloud"
    ),
    "CLOUDSDK_CORE_ACCOUNT CLOUDSDK_CORE_DEFAULT_FORMAT CLOUDSDK_CORE_DISABLE_PROMPTS"
    " CLOUDSDK_CORE_USER_OUTPUT_ENABLED": (
        "gcloud's account, the format of `list` and `describe`, whether vtrain asks for a region,"
        " and whether it prints anything"
    ),
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": "certificates to trust, as in gcloud",
    "VIRTUAL_ENV PATH": (
        "the active Python, for a trainer that declares nothing and for `--environment=current`"
    ),
    "STORAGE_EMULATOR_HOST": (
        "another Cloud Storage for uploads, without credentials; `vtrain emulator storage` prints it"
    ),
    "DOCKER_HOST DOCKER_TLS_VERIFY DOCKER_CERT_PATH": (
        "the Docker Engine and how to connect to it, as in Docker's own command"
    ),
    "DOCKER_CONTEXT DOCKER_CONFIG": (
        "the context that names the engine, and the folder with contexts and registry"
        " credentials; `~/.docker`"
    ),
    "DOCKER_BUILDKIT": (
        "`0`: build images with the engine's classic builder, although `docker buildx` is there"
    ),
    "XDG_RUNTIME_DIR COLIMA_HOME": "the folders of the sockets of rootless engines, Podman and Colima",
    "GOOGLE_APPLICATION_CREDENTIALS": (
        "the credentials for Google Cloud, and the file that `--credentials=adc` gives to a job;"
        " otherwise gcloud's own in `CLOUDSDK_CONFIG`"
    ),
    "GCE_METADATA_HOST GCE_METADATA_IP NO_GCE_CHECK": (
        "the address of a Google machine's metadata server; `true` for the last: do not look for it"
    ),
    "CI": "`true` without a terminal: an interrupted command cancels its job",
    "GITHUB_ACTIONS GITHUB_STEP_SUMMARY": "for a failed job, also write an annotation and a step summary",
    "NO_COLOR": "not empty: no colours, whatever the next three say",
    "FORCE_COLOR CLICOLOR_FORCE": (
        "not empty (`CLICOLOR_FORCE` not `0` either): colours in messages and log lines, also"
        " through a pipe. Documents on stdout never have colours"
    ),
    "PAGER LESS LV": (
        "the program that `vtrain help PAGE` shows a page in, as in git; `less`, with the options"
        " `FRX`. An empty `PAGER`: none"
    ),
    "TERM CLICOLOR": "`TERM=dumb` or `CLICOLOR=0`: no colours on a terminal",
}
"""Meanings by variable, or by variables that belong together. A test finds those that the sources name."""
