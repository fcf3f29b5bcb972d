"""pip's configuration while an image is built: a folder of the context, which stays in no layer.

BuildKit mounts it for the steps that install. The classic builder can only copy it into a layer: that one is
refused where the folder holds a login.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from vtrain.containers.build import BuildRequest, ContextFile
from vtrain.pip_settings import PIP_FILE, pip_files, secret_settings

_FOLDER = "pip"
_PLACE = "/tmp/vtrain-pip"
PIP_ARGUMENT = f"ARG PIP_CONFIG_FILE={_PLACE}/{PIP_FILE}"
"""The line of a Dockerfile before the first step that installs."""
PIP_MOUNT = f"--mount=type=bind,source={_FOLDER},target={_PLACE}"
"""What such a step has with BuildKit."""
PIP_COPY = f'COPY ["{_FOLDER}/", "{_PLACE}/"]'
"""The line before the first such step for the classic builder."""
_PROXIES = "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy".split()
"""Arguments that every builder knows; it keeps them out of the history, as long as no `ARG` names them."""


def with_pip_folder(request: BuildRequest, folder: str = "") -> BuildRequest:
    """The request with the folder, and with this machine's proxies.

    Relative paths of pip's configuration count from `folder` (empty: the current one). Raises as `pip_files`.
    """
    files = pip_files(os.environ, _PLACE, folder)
    secret = ", ".join(secret_settings(files))
    added = (ContextFile(name=f"{_FOLDER}/{name}", content=content) for name, content in files.items())
    proxies = {name: os.environ[name] for name in _PROXIES if os.environ.get(name)}
    return replace(
        request,
        files=(*request.files, *added),
        build_args=proxies | request.build_args,
        secret=f"what pip's configuration says in {secret}" if secret else "",
    )
