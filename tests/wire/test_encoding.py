"""What all encoders share: values of users as JSON, never too long, and what may be told of errors."""

import json
import math
from typing import Any

import msgspec
import pytest

from streamkit.errors import (
    AnswerError,
    DefinitionError,
    JournalError,
    LocalModelError,
    ProviderError,
    Refused,
    RunStopped,
    ToolError,
    WorkCancelled,
)
from streamkit.turns import Turn
from streamkit.wire.encoding import INTERNAL_ERROR, Values, frame, json_of, told


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no one looks at me")


class Dumps:
    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"mode": mode}


class Point(msgspec.Struct):
    x: int
    name: str = "\ud83d"


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        ("a\nb\u2028\ud83d", "a\nb\u2028\ufffd"),
        ({"deep": [("\ude00", {1: b"ab"})]}, {"deep": [["\ufffd", {"1": "YWI="}]]}),
        (Point(1), {"x": 1, "name": "\ufffd"}),
        (Dumps(), {"mode": "json"}),
        (math.nan, None),
        (["\ud83d", math.inf], ["\ufffd", None]),
        (2**70, 2**70),
        (Hostile(), "<Hostile>"),
        (CYCLE, "<list>"),
        ({(1, 2): 3}, {"(1, 2)": 3}),
        (msgspec.Raw(b'{"a":1}'), {"a": 1}),
    ],
)
def test_whatever_a_user_gives_goes_out_as_json(value: Any, shown: Any) -> None:
    written = json_of({"value": Values().of(value), "beside": "\ud83d"})
    assert json.loads(written.decode()) == {"value": shown, "beside": "\ufffd"}


def test_what_has_no_json_is_told_by_its_repr() -> None:
    assert json.loads(bytes(Values().of({"f": object}))) == {"f": "<class 'object'>"}


def test_arguments_go_out_as_the_json_that_they_are() -> None:
    assert bytes(Values().of_json('{ "a" : 1 }')) == b'{"a":1}'
    assert bytes(Values().of_json('{"a":"\ud83d"')) == b'"{\\"a\\":\\"\xef\xbf\xbd\\""'
    assert json.loads(bytes(Values().of_json("[" * 100_000)))


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 65, 1000])
def test_no_value_is_longer_than_the_limit_unless_cut(size: int) -> None:
    values = Values(limit_bytes=64)
    for text in ("x" * size, "é" * size, '"' * size):
        whole = len(json.dumps(text, ensure_ascii=False).encode()) <= 64
        assert (json.loads(bytes(values.of(text))) == text) == whole
        assert (values.text(text) == text) == (len(text.encode()) <= 64)


def test_a_frame_is_one_line_of_data() -> None:
    assert frame({"a": "\r\n"}) == b'data: {"a":"\\r\\n"}\n\n'
    assert frame({"a": 1}, 7) == b'id: 7\ndata: {"a":1}\n\n'


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RunStopped("enough"), "stopped", "enough"),
        (ProviderError("no capacity \ud83d"), "provider_error", "no capacity \ufffd"),
        (Refused("it said no", turn=Turn("t")), "refused", "it said no"),
        (AnswerError("odd", turn=Turn("t")), "answer_error", "odd"),
        (ToolError("the author says so"), "failed", "the author says so"),
        (WorkCancelled("task 7 of loop 3"), "cancelled", "the run was cancelled"),
        (JournalError("/var/lib/runs.db is locked"), "internal_error", INTERNAL_ERROR),
        (LocalModelError("/opt/model ended"), "internal_error", INTERNAL_ERROR),
        (DefinitionError("tool 'f' has no name"), "internal_error", INTERNAL_ERROR),
        (KeyError("password"), "internal_error", INTERNAL_ERROR),
        (BaseExceptionGroup("", [KeyError("a")]), "internal_error", INTERNAL_ERROR),
    ],
)
def test_nothing_of_what_is_inside_of_the_program_is_told(error: BaseException, kind: str, message: str) -> None:
    assert told(error) == (kind, message)
