"""Seals: only what this server has sealed is taken, and only in the thread that it was sealed for."""

import base64

import pytest

from streamkit import ToolCall
from streamkit.wire.seals import Seal

SEAL = Seal(b"0123456789abcdef")
CALL = ToolCall("c", "send", '{"to": "Ann", "n": 1}')


def test_what_was_closed_is_opened_in_its_thread_alone() -> None:
    closed = SEAL.close("t", [{"type": "message", "text": "é"}])
    assert Seal(b"0123456789abcdef").open("t", closed) == [{"type": "message", "text": "é"}]
    assert SEAL.open("other", closed) is None
    assert Seal().open("t", closed) is None


def test_what_was_changed_anywhere_is_not_opened() -> None:
    closed = base64.b64decode(SEAL.close("t", {"to": "Ann"}))
    for place in range(len(closed)):
        changed = closed[:place] + bytes([closed[place] ^ 1]) + closed[place + 1 :]
        assert SEAL.open("t", base64.b64encode(changed).decode()) is None


@pytest.mark.parametrize("odd", ["", "é", "AA==", "no base64!", "\ud83d"])
def test_what_is_no_seal_opens_nothing(odd: str) -> None:
    assert SEAL.open("t", odd) is None


def test_a_call_has_one_code_however_its_json_is_written() -> None:
    code = SEAL.of_call("t", "c", CALL)
    assert SEAL.of_call("t", "c", ToolCall("c", "send", '{"n":1,"to":"Ann"}')) == code
    others = [
        SEAL.of_call("other", "c", CALL),
        SEAL.of_call("t", "d", CALL),
        SEAL.of_call("t", "c", ToolCall("c", "sent", CALL.arguments)),
        SEAL.of_call("t", "c", ToolCall("c", "send", '{"to": "Bob", "n": 1}')),
        SEAL.of_call("t", "c", ToolCall("c", "send", "no json")),
        SEAL.of_call("tc", "", CALL),
    ]
    assert len({code, *others}) == len(others) + 1


def test_a_secret_is_long_enough_and_is_shown_nowhere() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        Seal(b"short")
    assert "0123" not in repr(SEAL)


def test_a_seal_of_one_user_opens_nothing_of_another() -> None:
    seal = Seal(b"sixteen bytes, or more")
    closed = seal.narrowed(b"ann").close("t", 1)
    assert [seal.narrowed(user).open("t", closed) for user in (b"ann", b"bob")] == [1, None]
    assert seal.open("t", closed) is None
