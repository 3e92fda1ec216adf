from typing import Any

import pytest

from streamkit.shapes.mismatch import ANSWER, LONGEST_MESSAGE, excerpt, joined, line, mismatch, missing, unknown, wrong


def test_all_lines_are_in_one_message_with_what_was_received() -> None:
    assert mismatch([missing("a"), unknown("b")], {"b": 1, "c": 2}) == (
        "the arguments do not fit:\n- a: required, but missing\n- b: unknown field\nreceived fields: b, c"
    )
    assert mismatch([], {}).endswith("received fields: none")


def test_only_of_an_object_the_fields_are_named() -> None:
    assert mismatch([wrong("", "expected object", [1])], [1], ANSWER) == (
        "the answer does not fit:\n- the top level: expected object, but got [1]"
    )


@pytest.mark.parametrize(
    "received",
    [{"a": "x" * 1_000_000}, {"x" * 10_000: 1}, {f"field_{number}": 1 for number in range(1000)}],
    ids=["long", "long name", "many"],
)
def test_a_message_stays_short_whatever_came(received: dict[str, Any]) -> None:
    message = mismatch([wrong(joined("", name), "e" * 10_000, value) for name, value in received.items()], received)
    assert len(message) <= LONGEST_MESSAGE
    assert "\nreceived fields: " in message


def test_no_more_lines_are_asked_for_than_there_is_room_for() -> None:
    asked: list[int] = []

    def lines() -> Any:
        for number in range(1000):
            asked.append(number)
            yield line("a", "x" * 50)

    assert mismatch(lines(), {}).endswith("\n- and more\nreceived fields: none")
    assert len(asked) < 30


def test_a_path_has_fields_and_places() -> None:
    assert joined(joined(joined("", "a"), 3), "b") == "a[3].b"


def test_an_excerpt_is_the_beginning_of_json() -> None:
    assert excerpt({"a": "é"}) == '{"a": "é"}'
    assert excerpt("x" * 1000) == '"' + "x" * 58 + "…"
    assert excerpt(2**70) == str(2**70)
