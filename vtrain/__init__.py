"""vtrain: train models on this machine and on Vertex AI with one command line.

The public names are imported when they are first used, as most commands need few of them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's own: to import that takes so long that Ctrl-C would meet it
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "BackendSettings": "vtrain.backends",
    "CustomJob": "vtrain.messages.custom_job",
    "CustomJobSpec": "vtrain.messages.custom_job",
    "JobBackend": "vtrain.backends",
    "LogEntry": "vtrain.messages.log",
    "LogQuery": "vtrain.messages.log",
    "Plan": "vtrain.backends",
    "VtrainError": "vtrain.errors",
    "from_document": "vtrain.messages.codec",
    "open_backend": "vtrain.backends",
    "read_message": "vtrain.messages.codec",
    "to_document": "vtrain.messages.codec",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
