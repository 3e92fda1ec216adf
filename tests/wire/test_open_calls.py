"""Calls on the wire: an id each, and how far they are."""

from streamkit import Intermediate, Output, ToolInputAbandoned, ToolInputAvailable, ToolInputStart, ToolStarted, Value
from streamkit.tool_events import RunEvent
from streamkit.wire.open_calls import OpenCalls, Phase


def written(call_id: str) -> list[RunEvent]:
    return [ToolInputStart(call_id, "f"), ToolInputAvailable(call_id, "{}")]


def run(call_id: str, *inner: RunEvent) -> list[RunEvent]:
    between = [Intermediate(call_id, "f", event=event) for event in inner]
    return [
        ToolStarted(f"t.{call_id}", call_id, "f", {}),
        *between,
        Output(call_id, "f", Value(call_id, "f", 1, "1")),
    ]


def ids_of_starts(events: list[RunEvent]) -> list[tuple[tuple[str, ...], str]]:
    calls = OpenCalls()
    seen = [calls.see(event) for event in events]
    return [(each.path, each.call.id) for each in seen if type(each.event) is ToolInputStart and each.call is not None]


def test_an_id_that_comes_again_is_another_on_the_wire() -> None:
    turn = [*written("c"), *run("c")]
    assert ids_of_starts([*turn, *turn, *written("c~2")]) == [((), "c"), ((), "c~2"), ((), "c~2~2")]


def test_a_call_of_an_inner_run_is_found_by_the_calls_around_it() -> None:
    turn = [*written("c"), *run("c", *written("c"), *run("c"))]
    assert ids_of_starts([*turn, *turn]) == [((), "c"), (("c",), "c~2"), ((), "c~3"), (("c~3",), "c~4")]


def test_what_nobody_will_run_is_known_at_the_end() -> None:
    calls = OpenCalls()
    for event in [
        *written("a"),
        ToolInputStart("b", "f"),
        *written("c"),
        ToolStarted("t.2", "c", "f", {}),
        *written("d"),
        ToolInputAbandoned("d", "discarded"),
    ]:
        calls.see(event)
    assert [call.id for call in calls.never_ran()] == ["a", "b"]


def test_a_malformed_call_stays_the_same_until_its_failure() -> None:
    calls = OpenCalls()
    calls.see(ToolInputStart("a", "f"))
    abandoned = calls.see(ToolInputAbandoned("a", "malformed"))
    output = calls.see(Output("a", "f", Value("a", "f", 1, "1")))
    assert output.call is abandoned.call
    assert (abandoned.before, output.before) == (Phase.WRITING, Phase.OVER)
