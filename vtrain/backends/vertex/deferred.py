"""Google's client library, imported in part.

The package `google.cloud.aiplatform_v1` imports all of its services and messages when it is imported: about
1.5 s of processor time, of which one service needs a third. Here the package, and its `types`, are put
into `sys.modules` as real modules whose `__init__` has not run yet. Submodules are found in them as ever; the
first use of any other name runs the genuine `__init__`, in place. So whatever is imported later in the same
process (`import google.cloud.aiplatform`, `from google.cloud.aiplatform_v1 import *`) finds the very same
modules and classes.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any

_LOCK = RLock()


def load_service(service: str, version: str = "v1") -> ModuleType:
    """The module of one service (`job_service`) of the library for `v1` or `v1beta1`.

    Raises ModuleNotFoundError where the library is not installed.
    """
    package = f"google.cloud.aiplatform_{version}"
    name = f"{package}.services.{service}"
    deferred = [_defer(package), _defer(f"{package}.types")]
    try:
        return import_module(name)
    except (ImportError, AttributeError):
        # A library that is laid out otherwise: import it whole, as everybody does.
        for module in deferred:
            if module is not None:
                module.load()
        return import_module(name)


class _DeferredPackage(ModuleType):
    """A package that is found, but not executed before something in it is used."""

    def __getattr__(self, name: str) -> Any:
        """A submodule, or what the package's own `__init__` defines, which is run for that."""
        with _LOCK:
            if not name.startswith("__") and find_spec(f"{self.__name__}.{name}") is not None:
                return import_module(f"{self.__name__}.{name}")
            self.load()
            if name not in self.__dict__:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            return self.__dict__[name]

    def load(self) -> None:
        """Run the package's `__init__`, once."""
        with _LOCK:
            spec = self.__spec__
            if spec is None or spec.loader is None or self.__dict__.get("_is_loaded"):
                return
            self.__dict__["_is_loaded"] = True
            try:
                spec.loader.exec_module(self)
            except BaseException:
                del self.__dict__["_is_loaded"]
                raise


def _defer(name: str) -> _DeferredPackage | None:
    """Put the package into `sys.modules` unexecuted; None for one that is there or is no plain package."""
    with _LOCK:
        if name in sys.modules:
            found = sys.modules[name]
            return found if isinstance(found, _DeferredPackage) else None
        spec = find_spec(name)
        if spec is None or spec.loader is None or spec.submodule_search_locations is None:
            return None
        module = _DeferredPackage(name)
        module.__spec__ = spec
        module.__loader__ = spec.loader
        module.__package__ = name
        module.__file__ = spec.origin
        module.__path__ = spec.submodule_search_locations
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        setattr(sys.modules[parent], child, module)
        return module
