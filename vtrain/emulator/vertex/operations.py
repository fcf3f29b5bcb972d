"""Operations of the API: most are done in their first answer. All are remembered for a while."""

from __future__ import annotations

import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from vtrain.emulator.vertex.vertex_call import Document, VertexCall
from vtrain.emulator.vertex.vertex_refusals import CODES, VertexRefusal, refusal_of
from vtrain.errors import VtrainError
from vtrain.messages.names import LOCAL_PROJECT
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import timestamp

MOST_OPERATIONS = 1000
"""Operations that are remembered."""
LONGEST_WAIT = 30.0
"""Seconds for which one request waits for an operation: clients ask again."""


class Operations:
    """The last operations of this start; several threads use it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Document] = OrderedDict()
        self._changed = threading.Condition()

    def add(self, call: VertexCall, response: Document, metadata: str) -> Document:
        """The operation of what a call has done; `metadata` is the type of its metadata."""
        return self._remember(call, metadata, {"done": True, "response": response})

    def deleted(self, call: VertexCall) -> Document:
        """The operation of a removal."""
        return self.add(
            call, {"@type": "type.googleapis.com/google.protobuf.Empty"}, "DeleteOperationMetadata"
        )

    def begin(self, call: VertexCall, work: Callable[[], Document], metadata: str) -> Document:
        """The operation of what takes longer: a thread does the work, whose result is the response."""
        begun = self._remember(call, metadata, {"done": False})

        def run() -> None:
            ended = _outcome(work, call.place.project)
            with self._changed:
                if begun["name"] in self._known:
                    self._known[begun["name"]] = {**begun, **ended}
                self._changed.notify_all()

        threading.Thread(target=run, name="operation", daemon=True).start()
        return begun

    def _remember(self, call: VertexCall, metadata: str, state: Document) -> Document:
        now = timestamp()
        times = {"createTime": now, "updateTime": now}
        operation: Document = {
            "name": f"{call.name}/operations/{random_job_id()}",
            "metadata": {"@type": call.type_url(metadata), "genericMetadata": times},
            **state,
        }
        with self._changed:
            self._known[operation["name"]] = operation
            while len(self._known) > MOST_OPERATIONS:
                self._known.popitem(last=False)
        return operation

    def get(self, name: str) -> Document:
        """An operation. Raises VertexRefusal."""
        with self._changed:
            found = self._known.get(name)
        if found is None:
            raise VertexRefusal("NOT_FOUND", f"The operation {name} does not exist.")
        return found

    def wait(self, name: str, seconds: float) -> Document:
        """The operation once it is done, or as it stands after so many seconds. Raises VertexRefusal."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._known.get(name, {"done": True})["done"], min(seconds, LONGEST_WAIT)
            )
        return self.get(name)

    def below(self, place: str) -> list[Document]:
        """The operations of a resource, or of all below a location, the newest first."""
        with self._changed:
            return [one for name, one in self._known.items() if name.startswith(f"{place}/")][::-1]


def print_fault() -> None:
    """Print the traceback of an exception in a thread, where stderr can be written."""
    with suppress(OSError):
        traceback.print_exc()


def _outcome(work: Callable[[], Document], project: str) -> Document:
    """The end of an operation: its response, or its error with names of the client's project."""
    try:
        return {"done": True, "response": work()}
    except VertexRefusal as refused:
        refusal = refused
    except VtrainError as error:
        refusal = refusal_of(error)
    except Exception:
        print_fault()
        refusal = VertexRefusal("INTERNAL", "The emulator has a fault: its messages on stderr tell which.")
    message = refusal.message.replace(f"projects/{LOCAL_PROJECT}/", f"projects/{project}/")
    return {"done": True, "error": {"code": CODES[refusal.status], "message": message}}
