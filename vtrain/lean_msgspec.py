"""Imports msgspec without `typing_extensions`, which takes longer than msgspec itself.

msgspec takes from it what `typing` has too, and falls back to that. vtrain's own programs import this module
before anything else that imports msgspec; it changes nothing for a program that uses vtrain as a library.
"""

from __future__ import annotations

import sys

if "typing_extensions" not in sys.modules:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment] # so that its import fails
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]
