"""Partial documents of a job, laid over each other; each path keeps its origin, for an error about it.

What a file says, a flag, a key of the project's table or an argument of the library is a layer. Mappings are
merged by name, and everything else is replaced. Two more keys of a job's spec are about pools that other
layers describe: `FIRST_POOL` is a part of the first one, and `EVERY_POOL` is what the task of each is given
(`args`, `command`, `env` by name, `image`). `core/compose` spreads both over the pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from vtrain.errors import ConfigError, FieldError, VtrainError

Document = dict[str, Any]
Origin = Callable[[FieldError], VtrainError]
"""Who said something: makes of an error about it one that names the flag, the key, or the line."""
POOLS = "workerPoolSpecs"
FIRST_POOL = f"{POOLS}[0]"
EVERY_POOL = f"{POOLS}[*]"


class Layer(msgspec.Struct, frozen=True):
    """A part of a job, and who said it. The spec of any kind of job is called `jobSpec` in it."""

    origin: Origin
    document: Document


def named(words: str, field: str = "") -> Origin:
    """The origin that goes by these words, such as a flag; an error about its `field` does not repeat it."""

    def blamed(error: FieldError) -> ConfigError:
        place = error.path if field.endswith(error.path) else words
        return ConfigError(f"{words}: {error.message.removeprefix(f'{place}: ')}", hint=error.hint)

    return blamed


def nobody(error: FieldError) -> VtrainError:
    """The origin of what vtrain adds itself, which leaves the error as it is."""
    return error


def at(path: str, value: Any) -> Document:
    """The document that says nothing but this value, at `jobSpec.scheduling.timeout`."""
    for step in reversed(path.split(".")):
        value = {step: list(value) if isinstance(value, tuple) else value}
    return value  # type: ignore[no-any-return]


class Fold:
    """The document that layers make, the last one on top."""

    def __init__(self, layers: Iterable[Layer] = (), spec: str = "jobSpec") -> None:
        """`spec` is the field in which the job says what runs."""
        self.document: Document = {}
        self._spec = spec
        self.origins: dict[str, Origin] = {}
        for layer in layers:
            self.lay(layer)

    def lay(self, layer: Layer) -> None:
        """Lay one more over the others. None takes away what is below it, for the next ones to begin anew."""
        above = {self._spec if name == "jobSpec" else name: value for name, value in layer.document.items()}
        if POOLS in above.get(self._spec, {}):  # whole pools: what was said of the first is below them
            self.document.get(self._spec, {}).pop(FIRST_POOL, None)
            self.say(f"{self._spec}.{FIRST_POOL}", layer.origin)
        self.document = self._laid(self.document, above, "", layer.origin)

    def _laid(self, below: Any, above: Any, path: str, origin: Origin) -> Any:
        if not isinstance(above, dict):
            self.origins[path] = origin
            return above
        if not isinstance(below, dict):
            self.say(path, origin)
            below = {}
        changes = {
            name: self._laid(below.get(name), value, f"{path}.{name}" if path else name, origin)
            for name, value in above.items()
        }
        return below | changes

    def say(self, path: str, origin: Origin) -> None:
        """Keep who said the value at a path, and all of it."""
        for below in [known for known in self.origins if _is_below(known, path)]:
            del self.origins[below]
        self.origins[path] = origin

    def say_spread(self, index: int, pool: Document) -> None:
        """Keep who said what the task of a pool was given of what every one is."""
        every = f"{self._spec}.{EVERY_POOL}."
        images = {"containerSpec": "imageUri", "pythonPackageSpec": "executorImageUri"}
        given = [(path.removeprefix(every), path) for path in self.origins if path.startswith(every)]
        for task in images.keys() & pool.keys():
            for name, path in given:
                place = images[task] if name == "image" else name
                self.origins[f"{self._spec}.{POOLS}[{index}].{task}.{place}"] = self.origins[path]

    def blame(self, error: FieldError) -> VtrainError:
        """The error, with the one who said the field in front; unchanged where several did, or nobody.

        A field that is not there is the matter of the one who began what it belongs to.
        """
        top = error.path.partition(".")[0].partition("[")[0]
        path = error.path if top in self.document else f"{self._spec}.{error.path}"
        found = {origin for known, origin in self.origins.items() if known != path and _is_below(known, path)}
        above = [known for known in self.origins if known == path or _is_below(path, known)]
        found |= {self.origins[max(above, key=len)]} if above else set()
        return found.pop()(error) if len(found) == 1 else error


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith((f"{above}.", f"{above}["))
