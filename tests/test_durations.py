"""Durations read as a person would write them."""

import pytest

from streamkit.durations import in_seconds


@pytest.mark.parametrize(
    ("duration", "words"),
    [(1, "1 second"), (1.0, "1 second"), (0.2, "0.2 seconds"), (0, "0 seconds"), (1500.0, "1500 seconds")],
)
def test_one_second_alone_is_singular(duration: float, words: str) -> None:
    assert in_seconds(duration) == words
