"""All methods and messages of the emulator's API, which loads them part by part, when they are asked for."""

from __future__ import annotations

from vtrain.emulator.vertex.methods import SERVICES, load_part, methods_of

ROWS = [
    (service, collection, method)
    for service in SERVICES
    for collection, methods in methods_of(service).items()
    for method in methods
]
"""Every method, with its service of gRPC, and the collection that it is about."""
_MESSAGES = {
    message.__name__: message
    for parts in SERVICES.values()
    for part in parts
    for message in load_part(part).MESSAGES
}
EMULATED = {
    collection: _MESSAGES[method.answer]
    for _, collection, method in ROWS
    if method.rpc.startswith("Get") and method.answer in _MESSAGES
}
"""The message of each collection."""


def full_name(service: str) -> str:
    """The name of a service in gRPC."""
    package = "google.longrunning" if service == "Operations" else "google.cloud.aiplatform.v1"
    return f"{package}.{service}"
