"""One call while the model writes it: every legal move, an illegal one per state, its text and its end."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.call_input import MOVES, CallInput, Phase
from streamkit.turns import (
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
)

START = ToolInputStart("c", "search")
EVENTS: list[ToolInputEvent] = [
    START,
    ToolInputDelta("c", "{}"),
    ToolInputAvailable("c", "{}"),
    ToolInputAbandoned("c", "incomplete"),
]
ROAD_TO: dict[Phase, list[ToolInputEvent]] = {
    Phase.WAITING: [],
    Phase.COLLECTING: [START],
    Phase.READY: [START, ToolInputAvailable("c", "{}")],
    Phase.ABANDONED: [START, ToolInputAbandoned("c", "incomplete")],
}


def call_in(phase: Phase) -> CallInput:
    call = CallInput(0, has_end_marker=True)
    call.call_id, call.name = "c", "search"
    for event in ROAD_TO[phase]:
        call.move(event)
    return call


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", EVENTS)
def test_a_call_moves_as_the_table_says_and_not_otherwise(phase: Phase, event: ToolInputEvent) -> None:
    call = call_in(phase)
    if (phase, type(event)) in MOVES:
        assert call.move(event) is event
        assert call.phase is MOVES[phase, type(event)]
    else:
        with pytest.raises(RuntimeError, match="cannot have a ToolInput"):
            call.move(event)
        assert call.phase is phase


def test_the_table_is_the_grammar() -> None:
    """Start Delta* (Available | Abandoned); Available may be followed by one Abandoned."""
    letters = {ToolInputStart: "s", ToolInputDelta: "d", ToolInputAvailable: "v", ToolInputAbandoned: "x"}
    assert {(phase.name, letters[event], after.name) for (phase, event), after in MOVES.items()} == {
        ("WAITING", "s", "COLLECTING"),
        ("COLLECTING", "d", "COLLECTING"),
        ("COLLECTING", "v", "READY"),
        ("COLLECTING", "x", "ABANDONED"),
        ("READY", "x", "ABANDONED"),
    }


def written(*texts: str) -> tuple[CallInput, list[str]]:
    """A call with these pieces of text, and the deltas that went out."""
    call = call_in(Phase.COLLECTING)
    deltas = [event.delta for text in texts for event in call.take_text(text) if isinstance(event, ToolInputDelta)]
    return call, deltas


def ended(*texts: str, told: str = "") -> tuple[list[str], str | None, str | None]:
    """All deltas of a call that ended well, its arguments, its problem."""
    call, deltas = written(*texts)
    events = call.end(told)
    if call.problem is not None:
        events += call.abandon("malformed", call.problem)
    deltas += [event.delta for event in events if isinstance(event, ToolInputDelta)]
    arguments = [event.arguments for event in events if isinstance(event, ToolInputAvailable)]
    return deltas, arguments[0] if arguments else None, call.problem


@pytest.mark.parametrize(
    ("texts", "deltas"),
    [
        (['{"q": ', '"x"}'], ['{"q": ', '"x"}']),
        (['{"code": "{}', "}", ' else"', "}"], ['{"code": "{}', "}", ' else"', "}"]),
        ([" ", "\n", "{", "}"], [" \n{", "}"]),
        (["{}", "\n", ""], ["{}", "\n"]),
        ([], ["{}"]),
        (["", " "], ["{}"]),
        (["nu", "ll"], ["{}"]),
        ([r'"{\"q\":', r' 1}"'], ['{"q": 1}']),
        (['{"q": 1}', '{"q"', ":1}"], ['{"q": 1}']),
        (['{"q": 1}', r'"{\"q\": ', r'1}"'], ['{"q": 1}']),
        (['{"q": 1}{"q":1}'], ['{"q": 1}']),
        (['{"q": 1} {"q": 1}\n{"q": 1}'], ['{"q": 1}']),
        (['{"q": 1}"{\\"q\\": 1}"'], ['{"q": 1}']),
        (['{"q":', ' {}}{"q": ', "{}}"], ['{"q":', " {}}"]),
        (['{"q": "\\', '"{}{}"}{"q": "\\"{}{}"}'], ['{"q": "\\', '"{}{}"}']),
        (['{"code": "{}{', '}{} {"}'], ['{"code": "{}{', '}{} {"}']),
    ],
)
def test_the_deltas_join_to_the_arguments(texts: list[str], deltas: list[str]) -> None:
    assert ended(*texts) == (deltas, "".join(deltas), None)


@pytest.mark.parametrize(
    "texts",
    [
        ['{"q": 1'],
        ['["q"]'],
        ['{"q": 1}', '{"q": 2}'],
        ['{"q": 1}{"q": 2}'],
        ['{"q": 1}{"q": 1}', '{"q": 2}'],
        ['"', "text"],
        ["{", "}", " and"],
        ["{}null{}"],
    ],
)
def test_the_deltas_of_a_malformed_call_join_to_what_the_model_wrote(texts: list[str]) -> None:
    deltas, arguments, problem = ended(*texts)
    assert "".join(deltas) == "".join(texts)
    assert arguments is None
    assert problem is not None


@given(st.sampled_from(['{"q": {"a": "}{"}}', '{"a":"\\\\"}', "{}"]), st.sampled_from(["", " ", "\n"]), st.data())
def test_the_same_object_again_adds_nothing_wherever_the_text_is_cut(
    once: str, between: str, data: st.DataObject
) -> None:
    text = between.join([once] * data.draw(st.integers(2, 4)))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=4)))
    deltas, arguments, problem = ended(*(text[start:end] for start, end in pairwise([0, *cuts, len(text)])))
    assert problem is None
    assert arguments == "".join(deltas)
    assert arguments.rstrip() == once


def test_what_is_told_at_the_end_wins_where_it_cannot_be_compared() -> None:
    digits = "9" * 5000
    deltas, arguments, problem = ended(f'{{"q":{digits}}}', told=f'{{"q": {digits}}}')
    assert (deltas, arguments, problem) == ([f'{{"q":{digits}}}'], f'{{"q": {digits}}}', None)


def test_an_object_may_have_any_number_of_places_where_it_seems_to_end() -> None:
    assert ended("{}" * 50_000) == (["{}"], "{}", None)
    code = '{"code": "' + "}{" * 50_000 + '"}'
    assert ended(code) == ([code], code, None)


@pytest.mark.parametrize(
    ("texts", "told", "expected"),
    [
        (['{"q":'], '{"q":1}', (['{"q":', "1}"], '{"q":1}', None)),
        ([], '{"q":1}', (['{"q":1}'], '{"q":1}', None)),
        (['{"q": 1}'], '{"q":1}', (['{"q": 1}'], '{"q": 1}', None)),
        (['{"q": 1}'], '{"q": 2', (['{"q": 1}'], '{"q": 1}', None)),
        (['{"q": 1}'], "", (['{"q": 1}'], '{"q": 1}', None)),
        ([], r'"{\"q\":1}"', (['{"q":1}'], '{"q":1}', None)),
    ],
)
def test_what_is_told_at_the_end_completes_the_arguments(
    texts: list[str], told: str, expected: tuple[list[str], str, None]
) -> None:
    assert ended(*texts, told=told) == expected


@pytest.mark.parametrize("texts", [[], ["", " "]])
@pytest.mark.parametrize("told", ['{"q":', "[1]", "q", "{}{"])
def test_what_is_told_at_the_end_alone_and_is_no_object_is_not_taken_for_nothing(texts: list[str], told: str) -> None:
    deltas, arguments, problem = ended(*texts, told=told)
    assert ("".join(deltas).lstrip(), arguments) == (told, None)
    assert problem is not None


def test_what_is_told_at_the_end_has_the_limit_of_all_arguments() -> None:
    for text in ("", '{"q":'):
        call = CallInput(0, has_end_marker=True, limit_chars=9)
        call.call_id, call.name = "c", "search"
        call.start()
        call.take_text(text)
        call.end('{"q": "long"}')
        assert (call.problem, call.phase) == ("the arguments have 13 characters, and may have 9", Phase.COLLECTING)


def test_what_is_told_at_the_end_wins_and_a_log_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert ended('{"q": 1}', told='{"q": 2}') == (['{"q": 1}'], '{"q": 2}', None)
    assert "call c of search" in caplog.text
    assert '"q"' not in caplog.text


@pytest.mark.parametrize(
    ("late", "spoiled"), [([], False), (['{"q":', "1}"], False), (["\n"], False), (['{"q": 2}'], True), (["{"], True)]
)
def test_text_after_the_end_adds_nothing_or_spoils_the_call(late: list[str], *, spoiled: bool) -> None:
    call, _ = written('{"q": 1}')
    call.end()
    assert [list(call.take_text(text)) for text in late] == [[]] * len(late)
    assert [type(event) for event in call.check_late_text()] == [ToolInputAbandoned] * spoiled
    assert call.abandoned == ("discarded" if spoiled else None)
    assert call.record("t").arguments == '{"q": 1}'


def test_nothing_is_sent_after_the_end() -> None:
    call, _ = written('{"q":')
    call.end(told='{"q": 1}')
    assert call.take_text("1}") == ()
    call, _ = written('{"q":')
    call.abandon("incomplete")
    assert call.take_text("1}") == ()


def test_held_text_is_shown_before_a_call_is_abandoned() -> None:
    call, deltas = written("nu")
    assert deltas == []
    assert call.abandon("incomplete") == [ToolInputDelta("c", "nu"), ToolInputAbandoned("c", "incomplete")]
    assert call.record("t").arguments == "nu"
