"""A hook of mkdocs: the pages lie beside mkdocs.yml.

mkdocs refuses the folder of its own configuration as `docs_dir`, for fear of publishing the
configuration; `exclude_docs` keeps that out.
"""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Read pages from the folder in which mkdocs.yml lies."""
    config.docs_dir = str(Path(config.config_file_path).parent)
    return config
