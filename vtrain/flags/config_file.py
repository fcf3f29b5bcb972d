"""Files that flags name, `-` being standard input; and that of `--config`: a mapping in YAML or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from reprlib import repr as short
from typing import Any

import msgspec

from vtrain.errors import ConfigError
from vtrain.settings import user_path


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds; `origin` is what an error names."""

    origin: str
    content: dict[Any, Any]

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Name the file in a ConfigError about its content."""
        try:
            yield
        except ConfigError as error:
            raise ConfigError(f"{self.origin}: {error.message}", hint=error.hint) from error


def read_config(path: str, expected: str) -> ConfigFile:
    """The mapping in a file; `-` is standard input.

    Raises ConfigError for a file that cannot be read, and for one that holds something else.
    """
    from vtrain.messages.yaml_reader import load_yaml

    origin = origin_of(path)
    content = load_yaml(read_text(path, "--config"), origin)
    if not isinstance(content, dict):
        found = "nothing" if content is None else short(content)[:60]
        raise ConfigError(f"{origin}: expected {expected}, found {found}.")
    return ConfigFile(origin=origin, content=content)


def check_not_legacy(content: dict[Any, Any]) -> None:
    """Raise ConfigError for a job of AI Platform Training."""
    found = next((name for name in ("trainingInput", "training_input") if name in content), None)
    if found is not None:
        raise ConfigError(
            f"{found} describes a job of AI Platform Training, which Vertex AI has replaced.",
            hint="Write workerPoolSpecs: machineSpec.machineType in place of scaleTier and masterType, "
            "and a pythonPackageSpec in place of pythonModule, packageUris and args.",
        )


def origin_of(path: str) -> str:
    """What an error calls the file of that path."""
    return "standard input" if path == "-" else path


def read_text(path: str, flag: str) -> str:
    """The text of the file that a flag names. Raises ConfigError where it cannot be read, or is no text."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else user_path(path).read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{flag}: cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{flag}: {path} is not UTF-8 text.") from error
