"""Vertex ML Metadata: the stores of experiments, with their contexts, executions and artifacts.

Sources of the rules: `metadata_service.proto` and its messages in `google/cloud/aiplatform/v1`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, TypeVar

import msgspec

from vtrain.emulator.vertex.documents import read_request, with_project
from vtrain.emulator.vertex.filters import (
    CALL,
    COMPARISONS,
    LISTS,
    Restriction,
    Test,
    has,
    read_filter,
    resource_test,
    wrong_filter,
)
from vtrain.emulator.vertex.stored_resources import FOUND, StoredResources, life, update_method
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import (
    OPERATION,
    PAGE,
    WHOLE,
    Document,
    Handler,
    Method,
    Services,
    VertexCall,
    field_of,
)
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid
from vtrain.messages.codec import to_document
from vtrain.messages.metadata_resources import (
    Artifact,
    Context,
    Event,
    Execution,
    LineageSubgraph,
    MetadataSchema,
    MetadataStore,
)
from vtrain.messages.names import (
    ARTIFACTS,
    CONTEXTS,
    EXECUTIONS,
    LOCAL_PROJECT,
    METADATA_SCHEMAS,
    METADATA_STORES,
)
from vtrain.messages.structs import Resource
from vtrain.times import timestamp

LARGEST_METADATA = 200_000
"""Bytes of `metadata`: the 200KB of `context.proto`."""
MOST_PARENTS = 10
"""`Context.parent_contexts`."""
MOST_LINKS = 10_000
"""Artifacts and executions of one context, and events of one execution."""
LARGEST_GRAPH = 1000
"""Artifacts, executions or events of an answer (`QueryContextLineageSubgraphRequest`)."""
LARGEST_SAMPLE = 100
"""Names that a purge answers (`PurgeContextsResponse.purge_sample`)."""
LONGEST_NAME = 128
"""Characters of a display name."""
_FIELDS = frozenset("name display_name uri state schema_title create_time update_time".split())
"""The fields that filters name (`ListArtifactsRequest.filter`)."""

N = TypeVar("N", bound=Resource)


class LinkedContext(Context, frozen=True):
    """A context with the names of its artifacts and executions."""

    members: tuple[str, ...] = ()


class LinkedExecution(Execution, frozen=True):
    """An execution with what it has read and written."""

    events: tuple[Event, ...] = ()


class Nodes(StoredResources[N]):
    """Contexts, executions or artifacts. Each change gives one a new etag."""

    def completed(self, document: Document) -> Any:
        """A new one, with its first etag."""
        return super().completed({"metadata": {}, **document, "etag": _next_etag("")})

    def update(self, call: VertexCall) -> Document:
        """Change fields, without a mask all that are given; with `allow_missing` one may be made."""
        wanted = self._read(call)
        given = to_document(wanted).keys() & self.changeable
        mask = call.text("updateMask") or ",".join(sorted(given - {"etag"}))
        try:
            with self.files.changing(call.name) as found:
                etag = getattr(found, "etag", "")
                if wanted.etag not in ("", etag):
                    raise VertexRefusal(
                        "ABORTED",
                        f"Specified {self._noun} `etag`: `{wanted.etag[:100]}` does not match server "
                        f"`etag`: `{etag}`",
                    )
                changed = self.updated(found, wanted, mask) if mask else found
                return self.shown(self.files.change(changed, etag=_next_etag(etag)))
        except VertexRefusal as refusal:
            if refusal.status != "NOT_FOUND" or not call.flag("allowMissing"):
                raise
        return self.create_at_once(call)

    def check(self, document: Document) -> None:
        """Raise VertexRefusal for metadata, a name or a whole that are too long."""
        if len(msgspec.json.encode(document.get("metadata"))) > LARGEST_METADATA:
            raise invalid("metadata: The size of this field should not exceed 200KB.")
        if len(document.get("displayName", "")) > LONGEST_NAME:
            raise invalid(f"display_name: it has more than {LONGEST_NAME} characters.")
        super().check(document)


def _node_methods(noun: str, part: str, purge: Handler, delete: Handler, *deleted: str) -> tuple[Method, ...]:
    """The life of a context, an execution or an artifact."""
    own_id, removed = f"{field_of(noun)}Id", ("etag", *deleted)
    return (
        *life(noun, part, created=(own_id,), lists=FOUND, deleted=removed, delete=delete),
        Method(f"Purge{noun}s", "POST", ":purge", purge, OPERATION, WHOLE, ("filter", "force")),
        update_method(noun, part, "allowMissing"),
    )


def _actions(named: str, *actions: tuple[Any, ...]) -> Iterator[Method]:
    """Methods whose actions have their names: verb, name, handler, and fields of the request."""
    for verb, rpc, handler, *fields in actions:
        answer, body = ("LineageSubgraph", "") if verb == "GET" else (f"{rpc}Response", WHOLE)
        yield Method(rpc, verb, f"*:{field_of(rpc)}", handler, answer, body, tuple(fields), named)


class MlMetadata:
    """The metadata stores of one home. Several threads use it."""

    def __init__(self, service: TrainingService) -> None:
        home, operations = service.home, service.operations
        self._links = threading.Lock()
        """Held while links are made, and while what they lead to is removed with them."""
        self.stores = StoredResources[MetadataStore](
            home, METADATA_STORES, MetadataStore, operations, needs=()
        )
        rest: dict[str, Any] = {"operations": operations, "needs": (), "test_of": self._test}
        self.contexts = Nodes[LinkedContext](home, CONTEXTS, Context, kept=LinkedContext, **rest)
        self.executions = Nodes[LinkedExecution](home, EXECUTIONS, Execution, kept=LinkedExecution, **rest)
        self.artifacts = Nodes[Artifact](home, ARTIFACTS, Artifact, **rest)
        self.schemas = StoredResources[MetadataSchema](
            home, METADATA_SCHEMAS, MetadataSchema, operations, needs=("schema",)
        )
        self._operations = operations

    def delete(self, call: VertexCall) -> Document:
        """Forget a context, an execution or an artifact, and what links others to it."""
        nodes, etag = self._nodes(call), call.text("etag")
        if etag and etag != nodes.files.find(call.name).etag:
            raise VertexRefusal("FAILED_PRECONDITION", f"The etag does not match that of {call.name}.")
        with self._links:
            self._unlink(call.parent, {call.name})
            return nodes.delete(call)

    def purge(self, call: VertexCall) -> Document:
        """Forget all that a filter lets through; without `force` only say how many and which."""
        nodes, text = self._nodes(call), call.text("filter")
        if not text.strip():
            raise invalid("filter is required.")
        passes = read_filter(text, self._test)
        names = [one.name for one in nodes.files.below(call.parent) if passes(nodes.shown(one))]
        answer: Document = {"purgeCount": str(len(names))}
        if call.flag("force"):
            with self._links:
                self._unlink(call.parent, {*names})
                for name in names:
                    with suppress(VertexRefusal):  # somebody else has just removed it
                        nodes.files.remove(name)
        else:
            answer |= {"purgeSample": names[:LARGEST_SAMPLE]} if names else {}
        collection, store, kind = call.place.collection.split("/")
        place = msgspec.structs.replace(call.place, collection=collection, id=store)
        typed = {"@type": call.type_url(f"Purge{kind.title()}Response"), **answer}
        return self._operations.add(
            msgspec.structs.replace(call, place=place), typed, f"Purge{kind.title()}Metadata"
        )

    def _nodes(self, call: VertexCall) -> Nodes[Any]:
        kinds: dict[str, Nodes[Any]] = {"contexts": self.contexts, "executions": self.executions}
        return kinds.get(call.place.collection.rpartition("/")[2], self.artifacts)

    def _unlink(self, parent: str, names: Set[str]) -> None:
        """Take names of a store's contexts, executions and artifacts out of all that links to them."""
        for context in self.contexts.files.below(parent):
            if not names.isdisjoint((*context.members, *context.parent_contexts)):
                self._link(context.name, remove=names)
        for execution in self.executions.files.below(parent):
            if any(event.artifact in names for event in execution.events):
                with self.executions.files.changing(execution.name) as found:
                    left = tuple(event for event in found.events if event.artifact not in names)
                    self.executions.files.change(found, events=left)

    # contexts

    def add_members(self, call: VertexCall) -> Document:
        """Put artifacts and executions into a context."""
        artifacts, executions = _names(call, "artifacts"), _names(call, "executions")
        with self._links:
            for nodes, names in ((self.artifacts, artifacts), (self.executions, executions)):
                for name in names:
                    nodes.files.find(name)
            self._link(call.name, members=(*artifacts, *executions))
        return {}

    def add_children(self, call: VertexCall) -> Document:
        """Make a context the parent of others."""
        with self._links:
            above, left = {call.name}, [call.name]
            while left:
                further = {*self.contexts.files.find(left.pop()).parent_contexts} - above
                above |= further
                left.extend(further)
            for name in _names(call, "childContexts"):
                if name in above:
                    raise invalid(f"{name[:300]} cannot be below {call.name}: it is the same, or above it.")
                self._link(name, parents=(call.name,))
        return {}

    def remove_children(self, call: VertexCall) -> Document:
        """The opposite."""
        self.contexts.files.find(call.name)
        for name in _names(call, "childContexts"):
            self._link(name, remove={call.name})
        return {}

    def _link(
        self,
        name: str,
        *,
        members: tuple[str, ...] = (),
        parents: tuple[str, ...] = (),
        remove: Set[str] = frozenset(),
    ) -> None:
        """Give a context more members and parents, and take some away. Raises VertexRefusal."""
        with self.contexts.files.changing(name) as found:
            above = [one for one in dict.fromkeys((*found.parent_contexts, *parents)) if one not in remove]
            within = [one for one in dict.fromkeys((*found.members, *members)) if one not in remove]
            _check_count(above, MOST_PARENTS, f"parents of {name}")
            _check_count(within, MOST_LINKS, f"artifacts and executions in {name}")
            self.contexts.files.change(found, parent_contexts=tuple(above), members=tuple(within))

    # lineage

    def add_events(self, call: VertexCall) -> Document:
        """Keep what an execution has read and written."""
        given = call.fields.get("events") or []
        if not isinstance(given, list):
            raise invalid("events: expected a list of messages.")
        with self._links:
            events = []
            for index, document in enumerate(given):
                event = read_request(Event, document, f"events[{index}]")
                self.artifacts.files.find(event.artifact)
                if not event.type:
                    raise invalid(f"events[{index}].type is required.")
                events.append(msgspec.structs.replace(event, execution=call.name, event_time=timestamp()))
            with self.executions.files.changing(call.name) as found:
                _check_count([*found.events, *events], MOST_LINKS, f"events of {call.name}")
                self.executions.files.change(found, events=(*found.events, *events))
        return {}

    def query_inputs_and_outputs(self, call: VertexCall) -> Document:
        """An execution with its events and their artifacts."""
        found = self.executions.files.find(call.name)
        return self._graph({event.artifact for event in found.events}, [found], found.events)

    def query_context(self, call: VertexCall) -> Document:
        """The artifacts and executions of a context, and the events between them."""
        members = self.contexts.files.find(call.name).members
        executions = [self.executions.files.find(name) for name in members if "/executions/" in name]
        artifacts = {name for name in members if "/artifacts/" in name}
        events = (event for one in executions for event in one.events if event.artifact in artifacts)
        return self._graph(artifacts, executions, events)

    def query_artifact(self, call: VertexCall) -> Document:
        """What an artifact was made of, and what was made of it, so many steps away."""
        hops = call.fields.get("maxHops", 2 * LARGEST_GRAPH)
        if not re.fullmatch("[0-9]{1,9}", str(hops)):
            raise invalid(f"max_hops: {str(hops)[:100]!r} is no number from 0 on.")
        self.artifacts.files.find(call.name)
        passes = read_filter(call.text("filter"), self._test)
        wanted = {one.name for one in self.artifacts.files.below(call.parent) if passes(to_document(one))}
        executions = {one.name: one for one in self.executions.files.below(call.parent)}
        links: dict[str, set[str]] = {}
        for name, execution in executions.items():
            links[name] = {event.artifact for event in execution.events} & wanted
            for artifact in links[name]:
                links.setdefault(artifact, set()).add(name)
        if call.name not in wanted:  # it is part of the answer all the same
            wanted, links = {call.name}, {}
        nodes, edge, steps = {call.name}, {call.name}, int(hops)
        while edge and steps > 0:
            edge = {further for name in edge for further in links.get(name, ())} - nodes
            nodes |= edge
            steps -= 1
        within = [execution for name, execution in executions.items() if name in nodes]
        events = (event for one in within for event in one.events if event.artifact in nodes)
        return self._graph(nodes & wanted, within, events)

    def _graph(
        self, artifacts: Set[str], executions: Sequence[LinkedExecution], events: Iterable[Event]
    ) -> Document:
        found = [*islice(events, LARGEST_GRAPH + 1)]
        if max(len(artifacts), len(executions), len(found)) > LARGEST_GRAPH:
            raise VertexRefusal(
                "FAILED_PRECONDITION",
                f"The subgraph has more than {LARGEST_GRAPH} artifacts, executions or events.",
            )
        return {
            "artifacts": [
                self.artifacts.shown(self.artifacts.files.find(name)) for name in sorted(artifacts)
            ],
            "executions": [self.executions.shown(one) for one in executions],
            "events": [to_document(event) for event in found],
        }

    # filters

    def _test(self, restriction: Restriction) -> Test:
        """The test of a context, an execution or an artifact by one restriction of a filter."""
        field, wanted = restriction.field, str(with_project(restriction.value, LOCAL_PROJECT))
        if field == CALL:
            members = frozenset(self.contexts.files.find(wanted).members)
            return lambda document: document["name"] in members
        if field in LISTS and restriction.comparison == ":":
            names = [str(with_project(name, LOCAL_PROJECT)) for name in restriction.value.split(",")]
            if field == "parent_contexts":
                return lambda document: set(names) <= set(document.get("parentContexts", ()))
            parents = [set(self.contexts.files.find(name).parent_contexts) for name in names]
            return lambda document: all(document["name"] in each for each in parents)
        if field.startswith("metadata."):
            return _metadata_test(restriction)
        return resource_test(msgspec.structs.replace(restriction, value=wanted), _FIELDS)

    MESSAGES = (MetadataStore, Context, Execution, Artifact, MetadataSchema, LineageSubgraph)
    SERVICES: ClassVar[Services] = {
        "MetadataService": {
            METADATA_STORES: life(
                "MetadataStore",
                "stores",
                created=("metadataStoreId",),
                lists=PAGE,
                deleted=("force",),
                is_slow=True,
            ),
            CONTEXTS: (
                *_node_methods("Context", "contexts", purge, delete, "force"),
                *_actions(
                    "context",
                    ("POST", "AddContextArtifactsAndExecutions", add_members, "artifacts", "executions"),
                    ("POST", "AddContextChildren", add_children, "childContexts"),
                    ("POST", "RemoveContextChildren", remove_children, "childContexts"),
                    ("GET", "QueryContextLineageSubgraph", query_context),
                ),
            ),
            EXECUTIONS: (
                *_node_methods("Execution", "executions", purge, delete),
                *_actions(
                    "execution",
                    ("POST", "AddExecutionEvents", add_events, "events"),
                    ("GET", "QueryExecutionInputsAndOutputs", query_inputs_and_outputs),
                ),
            ),
            ARTIFACTS: (
                *_node_methods("Artifact", "artifacts", purge, delete),
                *_actions(
                    "artifact", ("GET", "QueryArtifactLineageSubgraph", query_artifact, "maxHops", "filter")
                ),
            ),
            METADATA_SCHEMAS: life(
                "MetadataSchema", "schemas", created=("metadataSchemaId",), lists=("filter", *PAGE)
            )[:-1],  # without a removal, which the API does not have
        }
    }


def _metadata_test(restriction: Restriction) -> Test:
    """The test of a value in `metadata`: `metadata.KEY.number_value > 0.5`."""
    path, _, kind = restriction.field.rpartition(".")
    key, comparison = path.partition(".")[2], restriction.comparison
    wanted: Any = _VALUES[kind](restriction.value) if kind in _VALUES else None
    if wanted is None or not key or (comparison == ":" and kind != "string_value"):
        raise wrong_filter(f"{restriction.field}{comparison}{restriction.value}")

    def test(document: Mapping[str, Any]) -> bool:
        value: Any = (document.get("metadata") or {}).get(key)
        if type(value) is int:
            value = float(value)
        if type(value) is not type(wanted):
            return False
        return has(value, wanted) if comparison == ":" else COMPARISONS[comparison](value, wanted)

    return test


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_VALUES: dict[str, Callable[[str], Any]] = {
    "number_value": _number,
    "string_value": str,
    "bool_value": {"true": True, "false": False}.get,
}
"""How filters name the kinds of values in `metadata`, and what reads each."""


def _check_count(links: Sequence[Any], most: int, of: str) -> None:
    if len(links) > most:
        raise VertexRefusal("RESOURCE_EXHAUSTED", f"There would be more than {most} {of}.")


def _names(call: VertexCall, field: str) -> tuple[str, ...]:
    """The names in a field of a request, on this machine, each once."""
    return tuple(dict.fromkeys(with_project(call.names(field), LOCAL_PROJECT)))


def _next_etag(etag: str) -> str:
    """A number that is larger than the last one: the library compares the texts of both."""
    return str(max(time.time_ns() // 1_000_000, int(etag or 0) + 1))
