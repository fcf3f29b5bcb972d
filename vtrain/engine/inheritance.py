"""What replicas inherit of the environment of the command that submitted them."""

from __future__ import annotations

import os

from vtrain.messages.secrets import names_secret

INHERITED = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy "
    "LD_LIBRARY_PATH DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH "
    "XDG_CACHE_HOME HF_HOME TORCH_HOME OMP_NUM_THREADS".split()
)
INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_")
"""What replicas inherit of the submitting command's environment. Everything else is absent, as in a
container: a trainer that works only with the variables of one shell fails here already. HOME stays the
user's, so that caches are found. What the caller signs in with is not among it: `--credentials` gives that,
and `--env NAME` any other variable."""


def inherited_environment() -> dict[str, str]:
    """What replicas inherit of this process's environment."""
    return {
        name: value
        for name, value in os.environ.items()
        if (name in INHERITED or name.startswith(INHERITED_PREFIXES)) and not names_secret(name)
    }
