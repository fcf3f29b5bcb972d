"""The models of the stand-in for Vertex AI: upload, copy, versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vertex_service import Request, VertexService

Document = dict[str, Any]


def answer_models(service: VertexService, request: Request, parent: str, path: str) -> Document:
    """What the service answers; `path` begins behind the parent: `models/1@2:deleteVersion`."""
    from vertex_service import Refusal

    path, _, verb = path.partition(":")
    wanted, _, version = path.removeprefix("models").removeprefix("/").partition("@")
    if verb == "upload":
        place = (request.body.get("parentModel", ""), request.body.get("modelId", ""))
        return add_model(service, parent, *place, request.body["model"])
    if verb == "copy":
        place = (request.body.get("parentModel", ""), request.body.get("modelId", ""))
        source = service.resources[request.body["sourceModel"]]
        copied = {key: value for key, value in source.items() if key != "name"}
        return add_model(service, parent, *place, copied)
    name = f"{parent}/models/{wanted}"
    if not wanted:
        return {"models": [found for found in versions(service, f"{parent}/models/") if is_default(found)]}
    found = [each for each in versions(service, f"{name}@") if not version or version == each["versionId"]]
    if not found:
        raise Refusal(404, f"The Model {name} does not exist.")
    if verb == "listVersions":
        return {"models": found}
    if request.method == "GET":
        return found[0]
    for each in found:
        del service.resources[f"{name}@{each['versionId']}"]
    return service.start_operation(name, None)


def add_model(service: VertexService, parent: str, into: str, model_id: str, model: Document) -> Document:
    """Another version in the model `into`, or a new model."""
    from vertex_service import now

    name = into or f"{parent}/models/{model_id or '4500000000000000001'}"
    version = str(len(versions(service, f"{name}@")) + 1)
    aliases = [*model.get("versionAliases", []), *(["default"] if version == "1" else [])]
    kept = {**model, "name": name, "versionId": version, "versionAliases": aliases, "createTime": now()}
    service.resources[f"{name}@{version}"] = kept
    return service.start_operation(name, {"model": name, "modelVersionId": version})


def versions(service: VertexService, prefix: str) -> list[Document]:
    return [found for name, found in service.resources.items() if name.startswith(prefix)]


def is_default(model: Document) -> bool:
    return "default" in model["versionAliases"]
