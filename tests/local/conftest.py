"""What the tests of the local model share."""

from pathlib import Path

import pytest

from streamkit.errors import LocalModelError
from streamkit.local.weights import find_weights


@pytest.fixture(scope="module")
def weights() -> Path:
    try:
        return find_weights()
    except LocalModelError as error:
        pytest.skip(str(error))
