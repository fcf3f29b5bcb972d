"""Operations of the API: each is done in its first answer, and remembered for clients that ask again."""

from __future__ import annotations

import threading
from collections import OrderedDict

from vtrain.emulator.vertex.vertex_call import Document, VertexCall
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import timestamp

MOST_OPERATIONS = 1000
"""Operations that are remembered."""


class Operations:
    """The last operations of this start; several threads use it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Document] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, call: VertexCall, response: Document, metadata: str) -> Document:
        """The operation of what a call has done; `metadata` is the type of its metadata."""
        now = timestamp()
        times = {"createTime": now, "updateTime": now}
        operation: Document = {
            "name": f"{call.name}/operations/{random_job_id()}",
            "metadata": {"@type": call.type_url(metadata), "genericMetadata": times},
            "done": True,
            "response": response,
        }
        with self._lock:
            self._known[operation["name"]] = operation
            while len(self._known) > MOST_OPERATIONS:
                self._known.popitem(last=False)
        return operation

    def get(self, name: str) -> Document:
        """An operation. Raises VertexRefusal."""
        with self._lock:
            found = self._known.get(name)
        if found is None:
            raise VertexRefusal("NOT_FOUND", f"The operation {name} does not exist.")
        return found

    def below(self, place: str) -> list[Document]:
        """The operations of a resource, or of all below a location, the newest first."""
        with self._lock:
            return [one for name, one in self._known.items() if name.startswith(f"{place}/")][::-1]
