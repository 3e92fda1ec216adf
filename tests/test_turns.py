"""What a model is asked."""

from typing import Any

import pytest

from streamkit.items import user
from streamkit.turns import TurnRequest


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ("hi", "not str"),
        (user("hi"), "not Message"),
        (None, "not NoneType"),
        ([{"role": "user", "content": "hi"}], r"history\[0\] is a dict: items are made with user"),
        ((user("hi"), "hi"), r"history\[1\] is a str"),
    ],
)
def test_what_is_no_history_is_refused_before_anybody_is_asked(history: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        TurnRequest(history)
