"""Docker's contexts: named engines in Docker's configuration folder.

Source: the docker command's store of contexts (contexts/meta/SHA256-OF-NAME/meta.json, contexts/tls).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from vtrain.containers.address import EngineAddress
from vtrain.errors import EngineError


def current_context(folder: Path, named: str) -> EngineAddress | None:
    """The engine of the context `named` (DOCKER_CONTEXT), else of the configuration's current one.

    None where neither names one. Raises EngineError for a context that is not there or not readable.
    """
    origin = "DOCKER_CONTEXT" if named else f"currentContext in {folder / 'config.json'}"
    name = named or str(_read(folder / "config.json").get("currentContext") or "")
    if name in ("", "default"):
        return None
    digest = hashlib.sha256(name.encode()).hexdigest()
    endpoint = _read(folder / "contexts/meta" / digest / "meta.json").get("Endpoints", {}).get("docker", {})
    host = endpoint.get("Host", "")
    if not host:
        raise EngineError(
            f"{origin} names the Docker context '{name}', which {folder} does not have.",
            hint='"docker context ls" lists the contexts.',
        )
    files = folder / "contexts/tls" / digest / "docker"
    tls = files.is_dir() and host.startswith(("tcp:", "https:"))
    verify = not endpoint.get("SkipTLSVerify", False)
    if not verify and not tls:
        host = host.replace("tcp://", "https://", 1)
    return EngineAddress(
        host=host, origin=f"the context {name}", tls_folder=str(files) if tls else "", tls_verify=verify
    )


def _read(file: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is no such file."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise EngineError(
            f"Docker's configuration {file} cannot be read: {error}.", hint="Correct it, or set DOCKER_HOST."
        ) from error
