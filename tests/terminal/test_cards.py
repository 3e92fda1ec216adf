"""What stands on a terminal after the events of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from streamkit.items import ProviderTool, Usage
from streamkit.terminal import Bar
from streamkit.terminal.blocks import Describe, Run, as_it_is
from streamkit.terminal.card_screen import CardScreen
from streamkit.terminal.prints import Printed
from streamkit.terminal.rows import wrapped
from streamkit.tool_events import ApprovalRequested, Failure, Intermediate, Output, RunEvent, ToolStarted, Value
from streamkit.turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)

from .emulator import Emulator, TerminalFile
from .shown_events import DATA, TEXT, ran, within, written


def screen_of(width: int = 80, height: int = 24, describe: Describe = as_it_is) -> tuple[CardScreen, Emulator]:
    file = TerminalFile(width, height)
    screen = CardScreen(file, describe, Printed())
    screen.console.size = (width, height)
    return screen, file.emulator


async def seen(
    *events: object, width: int = 80, height: int = 24, ends: bool = False, describe: Describe = as_it_is
) -> str:
    """What stands there after these events: while the run goes on, or after its end."""
    screen, emulator = screen_of(width, height, describe)
    for event in events:
        await screen.put(event)
    if ends:
        await screen.end()
    await screen.say()
    return "\n".join(line for line in emulator.lines if line.strip())


# Calls while they are written


async def test_a_card_opens_as_its_name_is_known() -> None:
    assert "search ▌" in (await seen(*written("search"))).replace("  ", " ")


async def test_arguments_grow_field_by_field() -> None:
    shown = await seen(*written("search", '{"word": "re', 'ducer", "limit": 3, "in": "doc'))

    assert "search  word: reducer  limit: 3  in: doc▌" in shown


async def test_a_file_is_seen_as_text_while_it_is_written() -> None:
    lines = "".join(f"line {number}\\n" for number in range(40))
    shown = await seen(*written("write", '{"path": "a.txt", "content": "', lines, '    tail \\"here'), height=12)

    assert "write  path: a.txt" in shown
    assert "│   line 39" in shown
    assert '│       tail "here▌' in shown
    assert "lines before" in shown
    assert len(shown.splitlines()) < 12


async def test_a_call_that_is_no_json_is_shown_as_what_it_is() -> None:
    assert "run  print(1▌" in await seen(*written("run", "print", "(1"))


@pytest.mark.parametrize(
    ("reason", "detail", "told"),
    [
        ("incomplete", "the turn was cut", "╰ dropped incomplete: the turn was cut"),
        ("discarded", "", "╰ dropped discarded"),
        ("retried", "", "╰ dropped retried"),
        ("malformed", "no object", "╰ dropped malformed: no object"),
    ],
)
async def test_a_dropped_call_leaves_with_its_reason(reason: Any, detail: str, told: str) -> None:
    shown = await seen(*written("search", '{"wo'), ToolInputAbandoned("a", reason, detail), ends=True)

    assert "⊘ search" in shown
    assert told in shown


async def test_a_malformed_call_that_is_answered_has_one_card() -> None:
    failure = Failure("a", "search", "invalid_input", "This is no object.")
    shown = await seen(*written("search", "["), ToolInputAbandoned("a", "malformed"), Output("a", "search", failure))

    assert shown.count("search") == 1
    assert "╰ invalid input This is no object." in shown


async def test_an_id_that_comes_again_is_another_call() -> None:
    run = [*written("search", "{}"), ToolInputAvailable("a", "{}"), *ran("search", {})]

    assert (await seen(*run, *run)).count("✓ search") == 2


async def test_what_runs_is_shown_and_not_what_was_written() -> None:
    shown = await seen(
        *written("search", '{"limit": "3"}'), ToolInputAvailable("a", "{}"), *ran("search", {"limit": 4})
    )

    assert "limit: 4" in shown
    assert '"3"' not in shown


async def test_of_very_many_fields_the_first_and_the_last_are_kept() -> None:
    fields = ", ".join(f'"field_{number}": {number}' for number in range(1000))
    run = Run(as_it_is)
    for event in written("search", "{" + fields):
        run.feed(event)
    (call,) = run._calls.values()

    assert len(call.fields.shown) < 20
    assert "field_0" in call.fields.shown
    assert "field_998" in call.fields.shown  # the number of the last one may go on


# Calls that run


async def test_a_call_waits_for_a_decision() -> None:
    asked = ApprovalRequested("x", "a", "send", {"to": "Ann"})
    shown = await seen(*written("send", '{"to": "Ann"}'), ToolInputAvailable("a", "{}"), asked)
    assert "? send  to: Ann" in shown
    assert "╰ waits for a decision" in shown
    assert "╰ still waits for a decision" in await seen(asked, ends=True)


async def test_numbers_become_a_bar() -> None:
    shown = await seen(ToolStarted("x", "a", "copy", {}), Intermediate("a", "copy", {"done": 3, "total": 4}))

    assert "━" in shown
    assert "3 of 4" in shown


async def test_else_the_last_of_what_it_sends_is_seen() -> None:
    hits = [Intermediate("a", "search", {"hit": number}) for number in range(100)]
    shown = await seen(ToolStarted("x", "a", "search", {}), *hits)

    assert '{"hit":99}' in shown
    assert '{"hit":94}' not in shown
    assert "… 95 before" in shown


async def test_a_program_says_how_its_data_is_shown() -> None:
    def describe(data: Any) -> object:
        return {"one": "the first", "two": Bar(1, 2, "half"), "three": None}[data] if isinstance(data, str) else data

    shown = await seen(*ran("work", {}, "one", "two", "three", {"done": 9}), describe=describe)
    assert "│ the first" in shown
    assert "1 of 2  half" in shown
    assert "three" not in shown
    assert '{"done":9}' in shown


async def test_a_result_is_shortened() -> None:
    shown = await seen(*ran("read", {}, text="x" * 40_000_000))

    assert "╰ model gets" in shown
    assert len(shown) < 400


@pytest.mark.parametrize("kind", ["denied", "timeout", "invalid_input", "unknown_tool"])
async def test_a_failure_is_shown_with_its_reason(kind: Any) -> None:
    shown = await seen(Output("a", "read", Failure("a", "read", kind, "That is why.")))

    assert "✗ read" in shown
    assert f"╰ {kind.replace('_', ' ')} That is why." in shown


async def test_an_inner_run_stands_within_its_call_and_the_innermost_within_that() -> None:
    inner = [TextDelta("I look."), *written("agent", "{}", call_id="inner"), ToolStarted("y", "inner", "agent", {})]
    innermost = within(TextDelta("Deep down."), call_id="inner")
    shown = await seen(ToolStarted("x", "outer", "agent", {}), *within(*inner, *innermost), TextDelta("And above."))

    assert "\n  │ I look.\n" in shown
    assert "\n  │ │ Deep down." in shown
    assert "\n  And above." in shown


async def test_of_a_long_inner_run_the_last_is_kept() -> None:
    run = Run(as_it_is)
    for number in range(2000):
        turn = [TextDelta(f"turn {number} " * 1000), *ran("search", {}), TurnEnded(Turn("t"))]
        for event in within(*turn):
            run.feed(event)
    (call,) = run._calls.values()

    assert call.inner is not None
    assert len(call.inner.blocks) < 30
    assert all(len(block.rest) < 10_000 for block in call.inner.blocks if hasattr(block, "rest"))
    assert call.inner.omitted > 1000


async def test_in_a_card_nothing_is_left_out_without_a_sign() -> None:
    searches = [event for number in range(30) for event in ran("search", {"number": number})]
    shown = await seen(ToolStarted("x", "outer", "agent", {}), *within(*searches), height=20)

    assert "\n  │ …\n" in shown
    assert "number: 29" in shown
    assert "number: 0" not in shown


async def test_in_a_narrow_terminal_a_field_has_its_own_row() -> None:
    shown = await seen(ToolStarted("x", "a", "download_artifact", {"file": "mountain.bin"}), width=30)

    assert "│ file: mountain.bin" in shown


# Text, and the rest of a turn


async def test_text_goes_up_row_by_row_and_stays_whole() -> None:
    words = [f"word{number} " for number in range(500)]
    screen, emulator = screen_of(60, 10)
    for word in words:
        await screen.put(TextDelta(word))
    await screen.end()

    assert " ".join(emulator.text.split()) == "".join(words).strip()


async def test_a_turn_is_told_apart_by_its_voices() -> None:
    shown = await seen(
        TurnStarted("t", "m"), ReasoningDelta("I think."), TextDelta("It is "), TextDelta("so."), RefusalDelta("No.")
    )

    assert [line.strip() for line in shown.splitlines()] == ["I think.", "It is so.", "No.▌"]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (TurnEnded(Turn("t", stop_reason="length")), "cut at its token limit"),
        (TurnEnded(Turn("t")), "the model said nothing"),
        (TurnEnded(Turn("t", stop_reason="content_filter")), "ended: content_filter"),
        (TurnRestarted("overloaded"), "taken back, the model begins again: overloaded"),
        (ProviderTool("p", "web_search", {"query": "trees"}), 'web_search, run by the provider: {"query":"trees"}'),
        ({"my": "event"}, '{"my":"event"}'),
    ],
)
async def test_what_else_happens_is_told(event: object, told: str) -> None:
    assert told in await seen(event)


async def test_usage_is_told_in_the_end_with_that_of_inner_runs() -> None:
    screen, emulator = screen_of()
    turn = TurnEnded(Turn("t", usage=Usage(1000, 20)))
    for event in (ToolStarted("x", "outer", "agent", {}), *within(turn), turn):
        await screen.put(event)
    await screen.close()

    assert "2 turns · 1 call · 2,000 tokens in, 40 out · " in emulator.text


async def test_a_text_that_is_cut_off_says_so() -> None:
    screen, emulator = screen_of()
    await screen.put(TextDelta("Once there was"))
    screen.cut("stopped\nby \x1b[2J")
    await screen.end()

    assert [line.strip() for line in emulator.lines if line] == [
        "Once there was",
        "stopped by \N{REPLACEMENT CHARACTER}[2J",
    ]


async def test_what_is_inside_of_a_call_is_cut_off_with_it() -> None:
    screen, emulator = screen_of()
    inner = ToolStarted("y", "inner", "copy", {})
    for event in (ToolStarted("x", "outer", "agent", {}), *within(inner)):
        await screen.put(event)
    screen.leave()

    assert "  │ ╰ cut off\n  ╰ cut off" in emulator.text


async def test_a_run_that_is_cut_off_says_so() -> None:
    screen, emulator = screen_of()
    for event in (ToolStarted("x", "a", "copy", {}), TextDelta("And then")):
        await screen.put(event)
    screen.leave()

    assert "╰ cut off" in emulator.text
    assert "And then" in emulator.text
    assert "▌" not in emulator.text


# The terminal


async def test_what_a_program_says_stands_below_what_was_said_before() -> None:
    screen, emulator = screen_of()
    await screen.put(TextDelta("I send "))  # the first frame
    for event in (TextDelta("a mail."), *written("send"), ToolStarted("x", "call_1", "send", {})):
        await screen.put(event)
    await screen.say("May it run?")
    await screen.ask("And why?")

    words = ("I send a mail.", "May it run?", "And why?")
    assert sorted(words, key=emulator.text.index) == list(words)


async def test_what_has_ended_does_not_wait_for_ever_behind_what_has_not() -> None:
    screen, emulator = screen_of()
    await screen.put(ToolStarted("x", "first", "slow", {}))
    for number in range(200):
        await screen.put(Output(f"call_{number}", "quick", Value("a", "quick", None, f"result {number}")))
    await screen.say()

    assert len(screen._run.blocks) < 60
    assert "result 0" in emulator.text
    assert "slow" in emulator.text


@pytest.mark.parametrize("height", [1, 2, 5, 24])
async def test_of_what_moves_a_low_terminal_shows_what_it_can(height: int) -> None:
    screen, emulator = screen_of(60, height)
    for number in range(8):
        await screen.put(ToolStarted("x", f"call_{number}", "copy", {}))
    for number in range(30):
        await screen.put(Intermediate("call_7", "copy", f"part {number}"))
        await screen.say()
        assert len(screen._region._standing) < max(height, 2)
    await screen.end()

    assert emulator.text.count("copy") == 8
    assert "part 29" in emulator.text


async def test_a_terminal_that_becomes_narrower_keeps_nothing_of_the_frames_before() -> None:
    screen, emulator = screen_of(100)
    await screen.put(ToolStarted("x", "a", "copy", {"file": "a" * 30, "to": "b" * 20}))
    await screen.put(Intermediate("a", "copy", {"done": 1, "total": 4}))
    for width in (100, 50, 31, 20, 90):
        emulator.narrow(width) if width < screen.console.width else setattr(emulator, "width", width)
        screen.console.width = width
        await screen.say()

    assert emulator.text.count("copy") == 1
    assert emulator.shows_cursor
    assert emulator.wraps


def anything() -> st.SearchStrategy[RunEvent]:
    ids = st.sampled_from(["a", "b"])
    result = st.builds(Value, ids, TEXT, DATA, TEXT) | st.builds(Failure, ids, TEXT, st.just("failed"), TEXT)
    flat = st.one_of(
        st.builds(TextDelta, TEXT),
        st.builds(ReasoningDelta, TEXT),
        st.builds(ToolInputStart, ids, TEXT),
        st.builds(ToolInputDelta, ids, TEXT | st.sampled_from(['{"a', '": "b', "\\n", '", "c": [1, 2'])),
        st.builds(ToolInputAvailable, ids, TEXT),
        st.builds(ToolInputAbandoned, ids, st.sampled_from(["incomplete", "malformed"]), TEXT),
        st.builds(ApprovalRequested, ids, ids, TEXT, DATA),
        st.builds(ToolStarted, ids, ids, TEXT, st.dictionaries(TEXT, DATA, max_size=3)),
        st.builds(Intermediate, ids, TEXT, DATA),
        st.builds(Output, ids, TEXT, result),
        st.builds(TurnRestarted, TEXT),
        st.builds(ProviderTool, ids, TEXT, DATA),
    )
    return st.recursive(flat, lambda inner: st.builds(Intermediate, ids, TEXT, st.none(), inner), max_leaves=4)


@given(st.lists(anything(), max_size=12), st.sampled_from([4, 9, 21, 60]), st.integers(1, 30))
def test_no_event_steers_the_terminal_or_leaves_its_rows(events: Sequence[RunEvent], width: int, height: int) -> None:
    screen, emulator = screen_of(width, height)
    for event in events:
        screen._run.feed(event)
        screen._draw()
        assert max(screen._region._standing, default=0) <= max(width, 8)
    screen.leave()

    assert emulator.shows_cursor
    assert "[bold]" in emulator.text.replace("\n", "") or not any(
        event == TextDelta("[bold]x[/bold]") for event in events
    )


@given(st.text(st.sampled_from("ab -世🎉")), st.integers(2, 20), st.integers(0, 50))
def test_rows_join_to_their_line_and_only_the_last_one_grows(line: str, width: int, end: int) -> None:
    rows = wrapped(line, width)

    assert "".join(rows) == line
    assert all(cell_len(row.rstrip()) <= width for row in rows)
    assert wrapped(line[:end], width)[:-1] == rows[: len(wrapped(line[:end], width)) - 1]


async def many(count: int) -> AsyncIterator[RunEvent]:
    """As fast as they come, without ever waiting."""
    yield ToolStarted("x", "a", "copy", {})
    for number in range(count):
        yield TextDelta("a word and ")
        yield Intermediate("a", "copy", {"done": number, "total": count})
        yield Intermediate("a", "copy", f"line {number}")
        yield Intermediate("a", "copy", None, TextDelta("inner "))


async def test_many_events_are_shown_in_few_frames_and_in_flat_memory() -> None:
    file = TerminalFile()
    screen = CardScreen(file, as_it_is, Printed())
    most = 0
    async for event in many(25_000):
        await screen.put(event)
        most = max(most, sum(len(getattr(block, "rest", "")) for block in screen._run.blocks))

    assert file.written < 5_000
    assert most < 40_000
