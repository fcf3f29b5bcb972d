"""Docker's SDK: the Engine API for calls that are seldom, and for engines on other machines."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO

from docker import APIClient
from docker.auth import encode_header, load_config, resolve_authconfig, resolve_repository_name
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.context import Context
from docker.errors import DockerException, create_api_error_from_http_exception
from docker.utils import kwargs_from_env
from requests.exceptions import HTTPError

from vtrain.containers.client import older

if TYPE_CHECKING:
    from vtrain.containers.discovery import EngineAddress


def make_client(address: EngineAddress, engine_version: str) -> APIClient:
    """A client that speaks the newest API version that the engine and the SDK both know.

    Without `engine_version` it asks the engine. DOCKER_HOST's variables, or the context, name the files of
    TLS. Raises docker.errors.DockerException for an engine that is too old, RequestException for one that is
    not reached.
    """
    context = Context.load_context(address.context) if address.context else None
    tls = context.TLSConfig if context is not None else kwargs_from_env().get("tls")
    client = APIClient(
        base_url=address.host,
        version=older(engine_version, DEFAULT_DOCKER_API_VERSION),
        tls=tls if address.host.startswith("https:") and tls else False,
        use_ssh_client=True,
    )
    client.trust_env = False  # .netrc, proxies and CA bundles of the environment are for other hosts
    if engine_version:
        return client
    with closing(client):
        return make_client(address, client.version(api_version=False).get("ApiVersion", "1.0"))


def post_stream(
    client: APIClient,
    path: str,
    parameters: Mapping[str, Any],
    *,
    login: Mapping[str, str] = {},
    data: BinaryIO | None = None,
) -> Iterator[dict[str, Any]]:
    """The messages that a POST answers, one a line, as they come; `data` is its body, a tar archive.

    The SDK's own `pull`, `push` and `build` leave the answer open after an error, give up on a registry that
    is silent for a minute, and ask every credential helper before a build.
    """
    answer = client.post(
        f"{client.base_url}/v{client.api_version}{path}",
        params=parameters,
        data=data,
        headers={"Content-Type": "application/x-tar", "X-Registry-Auth": encode_header(login).decode()},
        stream=True,
    )
    with answer:
        try:
            answer.raise_for_status()
        except HTTPError as error:
            create_api_error_from_http_exception(error)
        for line in answer.iter_lines():
            if line.strip():
                yield json.loads(line)


def registry_login(name: str, tell: Callable[[str], None]) -> dict[str, str]:
    """This user's credentials for the registry of an image, from Docker's config.json and its helpers.

    Empty where there are none, or they cannot be read: most images are public.
    """
    try:
        registry, _ = resolve_repository_name(name.partition("@")[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a helper is missing comes as an error too
            return resolve_authconfig(load_config(), registry) or {}
    except DockerException as error:
        reason = " ".join(str(error).split()).rstrip(".")
    except (ValueError, TypeError, KeyError, AttributeError):  # the SDK takes what it reads as it comes
        reason = "a credential helper, or Docker's config.json, holds something else"
    tell(f"Docker's credentials for {name} cannot be read ({reason}); trying without.")
    return {}
