"""What may be seen of arguments and values, wherever else they are quoted."""

from typing import Any

from streamkit.items import ProviderTool, ToolCall, ToolOutput
from streamkit.redaction import HIDDEN, Redaction
from streamkit.tool_events import Failure, Intermediate, Output, RunEvent, Value
from streamkit.turns import ToolInputAvailable, ToolInputDelta, ToolInputStart, Turn, TurnEnded

SECRET = "hunter2"


def hide(tool: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: hide(tool, inner) for key, inner in value.items()}
    return value.replace(SECRET, "***") if isinstance(value, str) else value


def test_arguments_come_whole_or_not_at_all() -> None:
    hidden = Redaction(hide)
    events: list[RunEvent] = [
        ToolInputStart("c", "f"),
        ToolInputDelta("c", '{"p":"hun'),
        ToolInputAvailable("c", '{"p":"hunter2"}'),
    ]
    assert [hidden.event(event) for event in events] == [events[0], None, ToolInputAvailable("c", '{"p":"***"}')]


def test_a_message_that_quotes_arguments_is_not_quoted() -> None:
    failure = Failure("c", "f", "invalid_input", f"The call of f did not run: n is an integer, not '{SECRET}'")
    output = Redaction(hide).event(Output("c", "f", failure))
    assert SECRET not in repr(output)
    assert "its arguments do not fit" in repr(output)


def test_a_failure_keeps_the_sentence_that_its_author_wrote() -> None:
    failure = Failure("c", "f", "failed", "no such file", partial={"p": SECRET})
    assert Redaction(hide).result(failure) == Failure("c", "f", "failed", "no such file", partial={"p": "***"})


def test_what_the_provider_ran_is_looked_through_too() -> None:
    ran = ProviderTool("p", "search", {"q": SECRET}, None, "web_search", {"anthropic": {"input": {"q": SECRET}}})
    for seen in (Redaction(hide).event(ran), Redaction(hide).event(TurnEnded(Turn("t", items=(ran,))))):
        assert SECRET not in repr(seen)
    plain = ProviderTool("p", "search", {"q": "x"}, ["y"], opaque={"anthropic": {}})
    assert Redaction(hide).event(plain) == plain


def test_inner_runs_and_values_are_looked_through() -> None:
    hidden = Redaction(hide)
    value = Value("c", "f", {"p": SECRET}, f'{{"p":"{SECRET}"}}')
    for event in (Output("c", "f", value), Intermediate("c", "f", {"p": SECRET})):
        assert SECRET not in repr(hidden.event(Intermediate("o", "g", event=event)))
    call = ToolCall("c", "f", f'{{"p": "{SECRET}"}}', "t", 0)
    assert SECRET not in repr((hidden.item(call), hidden.item(ToolOutput("c", "f", SECRET))))


def test_calls_of_two_inner_runs_may_have_one_id() -> None:
    hidden = Redaction(lambda tool, value: "***" if tool == "login" else value)
    login, add = (ToolInputAvailable("c", f'{{"p":"{each}"}}') for each in (SECRET, "x"))
    for outer, event in (("a", ToolInputStart("c", "login")), ("b", ToolInputStart("c", "add"))):
        hidden.event(Intermediate(outer, "agent", event=event))
    assert SECRET not in repr(hidden.event(Intermediate("a", "agent", event=login)))
    assert hidden.event(Intermediate("b", "agent", event=add)) == Intermediate("b", "agent", event=add)


def hide_everywhere(tool: str, value: Any) -> Any:
    """As redactions mostly are: it walks down."""
    if isinstance(value, dict):
        return {key: "***" if key == "pw" else hide_everywhere(tool, each) for key, each in value.items()}
    return [hide_everywhere(tool, each) for each in value] if isinstance(value, list) else value


def test_what_is_nested_too_deeply_is_hidden_whole() -> None:
    redaction = Redaction(hide_everywhere)
    for depth in (600, *range(900, 1000, 4), 100_000):
        deep: Any = "secret"
        for _ in range(depth):
            deep = [deep]
        text = '{"pw": "secret", "x": %s1%s}' % ("[" * depth, "]" * depth)  # noqa: UP031
        assert "secret" not in redaction.item(ToolCall("c", "f", text)).arguments
        assert redaction.event(Intermediate("c", "f", deep)) == Intermediate("c", "f", HIDDEN)
        assert redaction.result(Value("c", "f", deep, "1")) == Value("c", "f", HIDDEN, "1")


def test_what_is_left_beside_half_a_character_can_be_seen() -> None:
    call = ToolCall("c", "f", '{"pw": "secret", "x": "\\ud83d"}')
    assert Redaction(hide_everywhere).item(call).arguments == '{"pw":"***","x":"\ufffd"}'
