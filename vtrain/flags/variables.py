"""Environment variables and gcloud's properties with their meanings, for the manual and the documentation."""

from __future__ import annotations

from typing import NamedTuple


class Property(NamedTuple):
    """A property of gcloud: its meaning, the flag that wins over it, and what counts without both."""

    meaning: str
    flag: str = ""
    default: str = ""


PROPERTIES = {
    "core/project": Property("the project", "--project", "`local` on local backends"),
    "ai/region": Property(
        "the region; on local backends its variable alone counts",
        "--region",
        "`us-central1` on local backends",
    ),
    "compute/region": Property("the region of `vtrain ai-platform`, without `ai/region`"),
    "auth/disable_credentials": Property("`true`: send requests without credentials"),
    "auth/access_token_file": Property("a file with an access token", "--access-token-file"),
    "auth/credential_file_override": Property(
        "a file with credentials", "", "Application Default Credentials"
    ),
    "auth/impersonate_service_account": Property(
        "the service account to act as", "--impersonate-service-account", "none"
    ),
    "billing/quota_project": Property(
        "the project whose quota is used", "--billing-project", "the credentials' project"
    ),
    "core/account": Property("gcloud's account, where there are no Application Default Credentials"),
    "api_endpoint_overrides/aiplatform": Property("the address of Vertex AI", "", "Google's own"),
    "api_endpoint_overrides/logging": Property("the address of Cloud Logging", "", "Google's own"),
    "api_endpoint_overrides/storage": Property("the address of Cloud Storage", "", "Google's own"),
    "core/default_format": Property("the output format of `list` and `describe`", "--format", "YAML"),
    "core/custom_ca_certs_file": Property(
        "certificates to trust, for example of a proxy that inspects TLS",
        "",
        "`REQUESTS_CA_BUNDLE`, or the usual ones",
    ),
    "core/user_output_enabled": Property("`false`: print nothing", "--user-output-enabled", "`true`"),
    "core/disable_prompts": Property("`true`: ask for nothing on a terminal", "--quiet", "`false`"),
}
"""The properties of gcloud that vtrain reads. A test finds those that the sources name."""

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
    "CLOUDSDK_CONFIG CLOUDSDK_ACTIVE_CONFIG_NAME": (
        "the folder of gcloud's configurations, and the active one, as in gcloud"
    ),
    **{f"CLOUDSDK_{name.replace('/', '_').upper()}": row.meaning for name, row in PROPERTIES.items()},
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": (
        "set by `emulator env` for gcloud; vtrain does not read them"
    ),
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
