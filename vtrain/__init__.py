"""vtrain: train models on this machine and on Vertex AI, from a command line or from Python.

    job = vtrain.submit("train.py", args=["--epochs=3"])
    for line in job.logs():
        print(line)
    job.wait()

The public names are imported when they are first used, as most commands need few of them. Their types are in
`__init__.pyi`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "BackendSettings": "vtrain.backends",
    "CustomJob": "vtrain.messages.custom_job",
    "CustomJobSpec": "vtrain.messages.custom_job",
    "Job": "vtrain.library",
    "JobBackend": "vtrain.backends",
    "LogEntry": "vtrain.messages.log",
    "LogQuery": "vtrain.messages.log",
    "Plan": "vtrain.backends",
    "VtrainError": "vtrain.errors",
    "follow": "vtrain.library",
    "from_document": "vtrain.messages.codec",
    "get": "vtrain.library",
    "open_backend": "vtrain.backends.registry",
    "read_message": "vtrain.messages.codec",
    "submit": "vtrain.library",
    "to_document": "vtrain.messages.codec",
}

__all__ = ["__version__", *_HOMES]


def _module(name: str) -> Any:
    from importlib import import_module

    return import_module(name)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_module(_HOMES[name]), name)


def load_ipython_extension(shell: object) -> None:
    """Answer `%load_ext vtrain` of a notebook: `%%vtrain [flags]` runs a cell as a job."""
    _module("vtrain.commands.cell_magic").register(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
