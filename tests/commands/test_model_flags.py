from __future__ import annotations

from pathlib import Path

import pytest

from vtrain.commands.models import compose_model
from vtrain.errors import ConfigError
from vtrain.flags.model_options import UploadFlags


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[1]", "NaN"])
def test_metadata_that_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "metadata.json"
    file.write_text(text)
    flags = UploadFlags(explanation_method="xrai", explanation_metadata_file=str(file))
    with pytest.raises(ConfigError, match=r"metadata\.json (is no JSON|holds no JSON object)"):
        compose_model(flags)
