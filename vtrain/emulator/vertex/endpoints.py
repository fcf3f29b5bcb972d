"""Endpoints, and the models that are deployed to them.

Sources of the rules: `endpoint_service.proto` and `endpoint.proto` of `google/cloud/aiplatform/v1`. An
endpoint is a file of the home; the servers of its models are those of this start.
"""

from __future__ import annotations

import random
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar, TypeVar

import msgspec

from vtrain.backends.model_interface import ModelServer
from vtrain.emulator.vertex.documents import read_request, updated
from vtrain.emulator.vertex.model_servers import ModelServers, ServersBusy, ask_model
from vtrain.emulator.vertex.resource_files import EVERYWHERE
from vtrain.emulator.vertex.stored_resources import StoredResources, life, update_method
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import (
    HTTP_BODY,
    OPERATION,
    WHOLE,
    Document,
    Method,
    Services,
    VertexCall,
)
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid, words_of
from vtrain.errors import ConfigError, ServiceError, VtrainError
from vtrain.messages.codec import to_document
from vtrain.messages.endpoint import DeployedModel, Endpoint
from vtrain.messages.model import Model
from vtrain.messages.names import ENDPOINTS
from vtrain.runtime.serving.serving_contract import ask_raw, served
from vtrain.times import timestamp

_OWN_ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?|[1-9][0-9]{0,8}")
"""`CreateEndpointRequest.endpoint_id`."""
_DEPLOYED_ID = re.compile(r"[1-9][0-9]{0,9}")
"""`DeployedModel.id`: 1 to 10 digits. `0` means the new one in a traffic split."""
_SHARE = re.compile(r"(?:[0-9]{1,2}|100)(?:\.0)?")
_CHANGEABLE = frozenset(
    "displayName description labels trafficSplit predictRequestResponseLoggingConfig "
    "clientConnectionConfig".split()
)
"""The fields that an update changes."""
_PRIVATE = "enablePrivateServiceConnect privateServiceConnectConfig network dedicatedEndpointEnabled".split()
_MUTABLE = frozenset(
    "dedicatedResources automaticResources disableContainerLogging enableAccessLogging".split()
)
"""The fields of a deployed model that a mutation changes."""
A = TypeVar("A")
_NEW = "0"
"""In a traffic split the model that is just being deployed."""


class Endpoints(StoredResources[Endpoint]):
    """The endpoints of one home. Several threads use it."""

    own_ids = _OWN_ID
    changeable = _CHANGEABLE

    def __init__(self, service: TrainingService) -> None:
        super().__init__(service.home, ENDPOINTS, Endpoint, service.operations)
        self.servers = ModelServers(service.home, service.backend, service.tell)
        self._find_model = service.model_of

    def completed(self, document: Document) -> Any:
        """A new endpoint, which has no models."""
        return super().completed({**document, "trafficSplit": {}})

    def check(self, document: Document) -> None:
        """Raise VertexRefusal also for an endpoint that is private, or has a server of its own."""
        if any(document.get(name) for name in _PRIVATE):
            raise VertexRefusal(
                "UNIMPLEMENTED",
                "The emulator has public shared endpoints alone: no dedicated or private ones.",
            )
        super().check(document)

    def updated(self, found: Endpoint, wanted: Any, mask: str) -> Endpoint:
        """An endpoint with other fields, of which the shares of the traffic are checked."""
        wanted = msgspec.structs.replace(wanted, traffic_split=_shares(wanted.traffic_split))
        changed = super().updated(found, wanted, mask)
        _check_split(changed.traffic_split, {one.id for one in found.deployed_models})
        return changed

    def delete(self, call: VertexCall) -> Document:
        """Remove an endpoint that has no models."""
        with self.files.changing(call.name) as found:
            if ids := [one.id for one in found.deployed_models]:
                raise VertexRefusal(
                    "FAILED_PRECONDITION",
                    f"The endpoint {call.name} has deployed models: {', '.join(ids)}. Undeploy them first.",
                )
            return super().delete(call)

    # models

    def deploy_model(self, call: VertexCall) -> Document:
        """Begin to deploy a model: the operation ends when its server is healthy."""
        wanted = read_request(DeployedModel, call.fields.get("deployedModel", {}), "deployed_model")
        split = _shares(call.fields.get("trafficSplit") or {})
        if wanted.id and not _DEPLOYED_ID.fullmatch(wanted.id):
            raise invalid(f"deployed_model.id: {wanted.id[:100]!r} is no number of 1 to 10 digits.")
        if wanted.shared_resources:
            raise VertexRefusal("UNIMPLEMENTED", "The emulator has no deployment resource pools.")
        found, model = self.files.find(call.name), self._find_model(wanted.model)
        deployed = msgspec.structs.replace(
            wanted,
            id=wanted.id or str(random.randrange(1, 10**10)),
            model=model.name,
            model_version_id=model.version_id,
            display_name=wanted.display_name or model.display_name,
            create_time=timestamp(),
        )
        _check_new(found, deployed.id, split)

        def work() -> Document:
            key = _key(call.name, deployed.id)
            try:
                self._start(key, model)
                with self.files.changing(call.name) as now:
                    _check_new(now, deployed.id, split)
                    self._find_model(f"{model.name}@{model.version_id}")  # it may be deleted by now
                    shares = {deployed.id if name == _NEW else name: share for name, share in split.items()}
                    self.files.change(
                        now,
                        deployed_models=(*now.deployed_models, deployed),
                        traffic_split=shares or now.traffic_split,
                    )
            except (VertexRefusal, VtrainError) as error:
                if getattr(error, "status", "") != "ALREADY_EXISTS":  # else another deployment's server
                    self.servers.stop(key)
                raise
            return {
                "@type": call.type_url("DeployModelResponse"),
                "deployedModel": to_document(deployed),
            }

        return self._operations.begin(call, work, "DeployModelOperationMetadata")

    def undeploy_model(self, call: VertexCall) -> Document:
        """Take a model from an endpoint; the operation ends with its server."""
        wanted, split = call.text("deployedModelId"), _shares(call.fields.get("trafficSplit") or {})
        with self.files.changing(call.name) as found:
            left = tuple(one for one in found.deployed_models if one.id != wanted)
            if len(left) == len(found.deployed_models):
                raise VertexRefusal("NOT_FOUND", f"{call.name} has no deployed model {wanted[:100]!r}.")
            shares = split or found.traffic_split
            if not left:
                shares = {}
            elif shares.get(wanted):
                raise VertexRefusal(
                    "FAILED_PRECONDITION",
                    f"The deployed model {wanted} has traffic: give the others all of it in traffic_split.",
                )
            shares = {name: share for name, share in shares.items() if name != wanted}
            _check_split(shares, {one.id for one in left})
            self.files.change(found, deployed_models=left, traffic_split=shares)

        def work() -> Document:
            self.servers.stop(_key(call.name, wanted))
            return {"@type": call.type_url("UndeployModelResponse")}

        return self._operations.begin(call, work, "UndeployModelOperationMetadata")

    def mutate_deployed_model(self, call: VertexCall) -> Document:
        """Change the resources of a deployed model."""
        wanted = read_request(DeployedModel, call.fields.get("deployedModel", {}), "deployed_model")
        with self.files.changing(call.name) as found:
            one = next((each for each in found.deployed_models if each.id == wanted.id), None)
            if one is None:
                raise VertexRefusal("NOT_FOUND", f"{call.name} has no deployed model {wanted.id[:100]!r}.")
            changed = updated(one, wanted, call.text("updateMask"), _MUTABLE)
            self.files.change(
                found,
                deployed_models=tuple(changed if each is one else each for each in found.deployed_models),
            )
        answer = {
            "@type": call.type_url("MutateDeployedModelResponse"),
            "deployedModel": to_document(changed),
        }
        return self._operations.add(call, answer, "MutateDeployedModelOperationMetadata")

    def predict(self, call: VertexCall) -> Document:
        """Predictions of one of the models, by their shares of the traffic."""
        instances = call.fields.get("instances")
        if not isinstance(instances, list) or not instances:
            raise invalid("instances is required, a list with at least one item.")
        deployed, model = self._chosen(call)
        request = {name: call.fields[name] for name in ("instances", "parameters") if name in call.fields}
        key = _key(call.name, deployed.id)
        predictions = self._asked(key, model, lambda server: ask_model(server, model, request))
        return {
            "predictions": predictions,
            "deployedModelId": deployed.id,
            "model": deployed.model,
            "modelVersionId": deployed.model_version_id,
            "modelDisplayName": model.display_name,
        }

    def raw_predict(self, call: VertexCall) -> Document:
        """The answer of one of the models to a body of any form, as it is."""
        body = call.fields.get("httpBody") or {}
        content, content_type = b64decode(body.get("data", "")), body.get("contentType", "")
        deployed, model = self._chosen(call)
        key = _key(call.name, deployed.id)
        route = served(model, "").predict_route
        answered, answer = self._asked(
            key, model, lambda server: ask_raw(server.address, route, content, content_type)
        )
        return {
            "contentType": answered,
            "data": b64encode(answer).decode(),
            "deployedModelId": deployed.id,
        }

    def _chosen(self, call: VertexCall) -> tuple[DeployedModel, Model]:
        """One of the models of an endpoint, by their shares of the traffic."""
        found = self.files.find(call.name)
        ids = {one.id: one for one in found.deployed_models}
        shares = {name: share for name, share in found.traffic_split.items() if share > 0 and name in ids}
        if not shares:
            raise VertexRefusal("FAILED_PRECONDITION", f"No model of {call.name} has traffic.")
        (chosen,) = random.choices(list(shares), list(shares.values()))
        deployed = ids[chosen]
        return deployed, self._find_model(f"{deployed.model}@{deployed.model_version_id}")

    def uses(self) -> dict[tuple[str, str], list[Document]]:
        """Where models are deployed, by name and version: `Model.deployed_models`."""
        found: dict[tuple[str, str], list[Document]] = {}
        for endpoint in self.files.below(EVERYWHERE):
            for one in endpoint.deployed_models:
                use = {"endpoint": endpoint.name, "deployedModelId": one.id}
                found.setdefault((one.model, one.model_version_id), []).append(use)
        return found

    def _start(self, key: str, model: Model) -> None:
        """Start the server of a model. One that nothing here can serve is deployed without."""
        try:
            with self.servers.using(key, model):
                pass
        except ServiceError as error:
            raise VertexRefusal("FAILED_PRECONDITION", words_of(error)) from None
        except VtrainError:
            pass  # each prediction says why

    def _asked(self, key: str, model: Model, ask: Callable[[ModelServer], A]) -> A:
        """What the healthy server of a deployed model answers. Raises VertexRefusal."""
        with ExitStack() as stack:
            try:
                server = stack.enter_context(self.servers.using(key, model))
            except ServersBusy as error:
                raise VertexRefusal("RESOURCE_EXHAUSTED", words_of(error)) from None
            except VtrainError as error:
                raise VertexRefusal("FAILED_PRECONDITION", words_of(error)) from None
            endpoint, _, deployed_id = key.rpartition("/")
            if all(one.id != deployed_id for one in self.files.find(endpoint).deployed_models):
                stack.close()
                self.servers.stop(key)  # it was undeployed while its server started
                raise VertexRefusal("NOT_FOUND", f"{endpoint} has no deployed model {deployed_id}.")
            try:
                return ask(server)
            except ConfigError as error:
                raise invalid(error.message) from None
            except VtrainError as error:
                raise VertexRefusal("INTERNAL", words_of(error)) from None

    MESSAGES = (Endpoint,)
    SERVICES: ClassVar[Services] = {
        "EndpointService": {
            ENDPOINTS: (
                *life("Endpoint", created=("endpointId",), is_slow=True),
                update_method("Endpoint"),
                Method("DeployModel", "POST", "*:deployModel", deploy_model, OPERATION, WHOLE,
                       ("deployedModel", "trafficSplit"), "endpoint"),
                Method("UndeployModel", "POST", "*:undeployModel", undeploy_model, OPERATION, WHOLE,
                       ("deployedModelId", "trafficSplit"), "endpoint"),
                Method("MutateDeployedModel", "POST", "*:mutateDeployedModel", mutate_deployed_model,
                       OPERATION, WHOLE, ("deployedModel", "updateMask"), "endpoint"),
            )
        },
        "PredictionService": {
            ENDPOINTS: (
                Method("Predict", "POST", "*:predict", predict, "PredictResponse", WHOLE,
                       ("instances", "parameters", "labels"), "endpoint"),
                Method("RawPredict", "POST", "*:rawPredict", raw_predict, HTTP_BODY, WHOLE, ("httpBody",),
                       "endpoint"),
            )
        },
    }  # fmt: skip


def _key(endpoint: str, deployed_id: str) -> str:
    return f"{endpoint}/{deployed_id}"


def _shares(split: Any) -> dict[str, int]:
    """The shares of the traffic in a request, in percent, without those of nothing. Raises VertexRefusal."""
    if not isinstance(split, Mapping) or not all(_SHARE.fullmatch(str(share)) for share in split.values()):
        raise invalid("traffic_split: expected whole numbers from 0 to 100 by the ids of deployed models.")
    return {str(name): whole for name, share in split.items() if (whole := int(float(share)))}


def _check_split(split: Mapping[str, int], ids: set[str]) -> None:
    """Raise VertexRefusal for shares of models that there are not, or that are not 100 together."""
    if unknown := [name for name, share in split.items() if share and name not in ids]:
        raise invalid(f"traffic_split: there is no deployed model {unknown[0][:100]!r}.")
    if split and sum(split.values()) != 100:
        raise invalid(f"traffic_split: the shares are {sum(split.values())} together, and not 100.")


def _check_new(endpoint: Endpoint, deployed_id: str, split: Mapping[str, int]) -> None:
    """Raise VertexRefusal where a model cannot be deployed under that id, or with these shares."""
    ids = {one.id for one in endpoint.deployed_models}
    if _NEW in split and deployed_id in split:
        raise invalid(f"traffic_split: 0 and {deployed_id} are the same deployed model.")
    if deployed_id in ids:
        raise VertexRefusal("ALREADY_EXISTS", f"{endpoint.name} has a deployed model {deployed_id} already.")
    _check_split(split, ids | {_NEW, deployed_id})
