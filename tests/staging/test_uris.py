"""Addresses of buckets and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtrain.errors import ConfigError
from vtrain.staging import split_uri


def test_a_path_is_answered_with_its_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        split_uri(f"{tmp_path}/out put")
    assert caught.value.hint.endswith(f"(--base-output-dir): file://{tmp_path}/out%20put")
