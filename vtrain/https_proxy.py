"""The variables that lead a program's HTTPS and gRPC to a proxy of vtrain, and those that lead past it."""

from __future__ import annotations

import os
import re

PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy")
NO_PROXY_VARIABLES = ("NO_PROXY", "no_proxy")
BUNDLE_VARIABLES = (
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "HTTPLIB2_CA_CERTS",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "NODE_EXTRA_CA_CERTS",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)
"""By these requests, OpenSSL, curl and TensorFlow, httplib2, gcloud, Node and gRPC find what to trust."""
METADATA_VARIABLES = ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT")
"""By these Google's clients find the server that gives them credentials."""
GCSFS_ALONE = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
"""Else gcsfs asks each bucket by gRPC whether it has folders, and waits a minute for an answer."""
LED_DOMAIN = "googleapis.com"
_USER = "vtrain"
"""The user in the URLs of vtrain's proxies; a proxy with another one is the user's own."""


def led_variables(place: str, token: str, bundle: str) -> dict[str, str]:
    """The variables that lead to the proxy at `HOST:PORT`, which asks for a token unless that is empty.

    `bundle` is the file with what its clients are to trust.
    """
    proxy = f"http://{_USER}:{token or 'none'}@{place}"
    proxies = dict.fromkeys((*PROXY_VARIABLES, "grpc_proxy"), proxy)
    return proxies | dict.fromkeys(BUNDLE_VARIABLES, bundle) | {"NODE_USE_ENV_PROXY": "1"}


def direct_hosts(*lists: str) -> str:
    """The value of NO_PROXY for the hosts of several such values, without those that are to be led."""
    names = dict.fromkeys(name for each in lists for name in re.split(r"[,\s]+", each) if name)
    return ",".join(name for name in names if not _covers_the_led(name.lower()))


def _covers_the_led(name: str) -> bool:
    domain = re.sub(r":\d+$", "", name).lstrip("*.")
    return domain.endswith(LED_DOMAIN) or LED_DOMAIN.endswith(domain)  # clients compare the ends of names


def outer_proxy() -> str:
    """The URL of the user's own proxy for HTTPS; empty where there is none, or one of vtrain."""
    found = next(filter(None, map(os.environ.get, PROXY_VARIABLES)), "")
    return "" if is_own_proxy(found) else found


def leading_here() -> frozenset[str]:
    """The variables of this process that lead to a proxy of vtrain, which may end before a job does."""
    is_led = is_own_proxy(os.environ.get(PROXY_VARIABLES[0], ""))
    return frozenset(led_variables("", "", "")) if is_led else frozenset()


def is_own_proxy(url: str) -> bool:
    """Whether a proxy is one of vtrain."""
    return f"//{_USER}:" in url
