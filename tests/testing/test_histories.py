"""`check_history` takes what providers take, and names the rule where one refuses."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.history import append_turn
from streamkit.items import (
    History,
    Image,
    Item,
    Message,
    Reasoning,
    ToolCall,
    ToolOutput,
    UnknownItem,
    assistant,
    image,
    user,
)
from streamkit.providers.decoders import DECODERS
from streamkit.testing import IllegalHistory, check_history
from streamkit.testing.anthropic_legality import check_messages, check_thoughts_kept
from streamkit.testing.decoders import outcome
from streamkit.testing.gemini_legality import check_contents, check_signatures_kept
from streamkit.testing.ollama_legality import check_chat as check_ollama
from streamkit.testing.openai_legality import (
    MISTRAL,
    MOST,
    OPENAI,
    ChatRules,
    check_chat,
    check_responses,
    check_responses_kept,
)
from streamkit.tool_events import Failure, ToolResult, Value
from streamkit.transcript import Transcript
from streamkit.turns import Turn

from ..streams import recorded_body, recordings

CALL = ToolCall("a", "f", "{}")
OTHER = ToolCall("b", "g", '{"x": 1}')
RESULT = ToolOutput("a", "f", "1")
OTHER_RESULT = ToolOutput("b", "g", "2")
GO = user("go")
LINKED = image("https://example.org/a.png")

Json = dict[str, Any]


def results_of(turn: Turn) -> list[ToolResult]:
    return [
        Failure(call.call_id, call.name, "invalid_input", "no")
        if call.problem
        else Value(call.call_id, call.name, 1, "1")
        for call in turn.calls
    ]


# What is legal


@pytest.mark.parametrize("dialect", DECODERS)
@pytest.mark.parametrize(
    "history",
    [
        (),
        (GO,),
        (GO, assistant("Hi.")),
        (GO, CALL, OTHER, RESULT, OTHER_RESULT),
        (GO, assistant("\n"), CALL, RESULT, CALL, RESULT, assistant("So."), user("and?")),
        (GO, ToolCall("x" * 65, "multi_tool.use", "{}"), ToolOutput("x" * 65, "multi_tool.use", "no", failed=True)),
        (GO, Reasoning("hm"), Message("assistant", "", opaque={"gemini": {"thoughtSignature": "s"}})),
        (user("look", LINKED), CALL, ToolOutput("a", "f", "", images=(Image(b"x", "image/png"), LINKED)), user("and?")),
        (assistant("I begin."), user("well?")),
        (GO, assistant("I was cut ")),
    ],
)  # fmt: skip
def test_what_a_run_may_leave_is_legal(history: History, dialect: str) -> None:
    check_history(history, dialect)


@pytest.mark.parametrize("entry", [entry for dialect in DECODERS for entry in recordings(dialect)])
def test_what_servers_said_is_taken_by_all_of_them(entry: Json) -> None:
    turn = outcome(DECODERS[entry["dialect"]](), [recorded_body(entry)]).turn
    history = append_turn((GO,), turn, results_of(turn))
    for dialect in DECODERS:
        check_history(history, dialect)
        check_history((*history, user("and now?"), CALL, RESULT), dialect)


some_calls = st.lists(
    st.builds(
        ToolCall,
        st.text("ab:", min_size=1, max_size=3) | st.text(min_size=60, max_size=70),
        st.sampled_from(["f", "functions.f", "ü"]),
        st.sampled_from(["{}", '{"x":1}']),
    ),
    max_size=3,
    unique_by=lambda call: call.call_id,
)
some_texts = st.lists(st.sampled_from([Reasoning("hm"), assistant(" "), assistant("Yes. ")]), max_size=2)


@given(st.lists(st.tuples(some_texts, some_calls, st.booleans()), max_size=5))
def test_whatever_is_appended_is_taken_by_all(turns: list[tuple[list[Any], list[ToolCall], bool]]) -> None:
    history: History = (GO,)
    for texts, calls, goes_on in turns:
        turn = Turn("t", items=(*texts, *calls))
        history = append_turn(history, turn, results_of(turn)) + ((user("and?"),) if goes_on else ())
    for dialect in DECODERS:
        check_history(history, dialect)


def test_an_empty_transcript_is_legal() -> None:
    for dialect in DECODERS:
        check_history(Transcript().history(), dialect)


def test_a_number_of_more_digits_than_python_reads_is_legal() -> None:
    said = ToolCall("a", "f", '{"x": %s}' % ("9" * 5000))
    for dialect in DECODERS:
        check_history((GO, said, RESULT), dialect)


def test_a_dialect_that_is_not_known_is_named() -> None:
    with pytest.raises(ValueError, match="'openai'; known are openai-chat, "):
        check_history((), "openai")


# What none takes


@pytest.mark.parametrize(
    ("history", "rule"),
    [
        ((GO, CALL), r"the end: the calls \['a'\] have no result"),
        ((GO, CALL, user("and?"), RESULT), r"history\[2\]: the calls \['a'\] have no result"),
        ((GO, CALL, OTHER, RESULT, assistant("so"), OTHER_RESULT), r"history\[4\]: the calls \['b'\] have no result"),
        ((GO, RESULT), "has no call before it, or is its second one"),
        ((GO, CALL, RESULT, RESULT), "has no call before it, or is its second one"),
        ((GO, CALL, RESULT, assistant("so"), RESULT), "has no call before it"),
        ((GO, CALL, OTHER, OTHER_RESULT, RESULT), "the next result is that of a, not of b"),
        ((GO, CALL, ToolCall("a", "g", "{}"), RESULT, RESULT), "two calls have the id a"),
        ((GO, CALL, ToolOutput("a", "g", "1")), "of another kind than the call a of f"),
        ((GO, CALL, ToolOutput("a", "f", "1", custom=True)), "of another kind than the call a of f"),
        ((GO, ToolCall("", "f", "{}"), ToolOutput("", "f", "1")), "a call without an id, or without a name"),
        ((GO, ToolCall("a", "", "{}"), ToolOutput("a", "", "1")), "a call without an id, or without a name"),
        ((GO, ToolCall("a", "f", "[]"), RESULT), "the arguments of a are not a JSON object"),
        ((GO, ToolCall("a", "f", '{"x'), RESULT), "the arguments of a are not a JSON object"),
        ((GO, ToolCall("a", "f", ""), RESULT), "the arguments of a are not a JSON object"),
        ((GO, assistant(" \n"), user("and?")), r"history\[2\]: a message of the model before it is blank"),
        ((GO, assistant("")), "the end: a message of the model before it is blank"),
    ],
)  # fmt: skip
def test_what_no_provider_takes_is_named(history: Sequence[Item], rule: str) -> None:
    for dialect in DECODERS:
        with pytest.raises(IllegalHistory, match=rule):
            check_history(history, dialect)


# What servers refuse in bodies, whoever wrote them


def refuses(check: Callable[[Any], None], body: Json, rule: str) -> None:
    with pytest.raises(IllegalHistory, match=rule):
        check(body)


ASKS: Json = {"role": "user", "content": "go"}
ANSWERS: Json = {"role": "tool", "tool_call_id": "a", "content": "1"}


def calls(*ids: str, name: str = "f", arguments: str = "{}") -> Json:
    called = [{"id": each, "type": "function", "function": {"name": name, "arguments": arguments}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": called}


@pytest.mark.parametrize(
    ("messages", "rule", "rules"),
    [
        ([{"role": "function"}], "'function' is not a role", MOST),
        ([{"role": "user", "content": None}], "a message has content", MOST),
        ([ASKS, calls("a")], r"the calls \['a'\] have no result", MOST),
        ([ASKS, calls("a", "b"), ANSWERS, ASKS], r"the calls \['b'\] have no result right after them", MOST),
        ([ASKS, ANSWERS], "a result of no call of the message before", MOST),
        ([ASKS, calls("a"), ANSWERS, ANSWERS], "a result of no call of the message before", MOST),
        ([ASKS, calls("a"), ANSWERS | {"content": None}], "a result has content", MOST),
        ([ASKS, calls("a", "a"), ANSWERS, ANSWERS], "two calls have one id", MOST),
        ([ASKS, calls("")], "the id '' is not taken", MOST),
        ([ASKS, {"role": "assistant", "content": None}], "says nothing, and calls nothing", MOST),
        ([ASKS, {"role": "assistant", "content": " \n"}], "says nothing, and calls nothing", MOST),
        ([ASKS, calls()], "tool_calls is empty", MOST),
        ([ASKS, calls("a", arguments="[1]"), ANSWERS], "not a JSON object", MOST),
        ([ASKS, calls("a", arguments=""), ANSWERS], "not a JSON object", MOST),
        ([ASKS, calls("a", name="f.g"), ANSWERS], "the name 'f.g' is not taken", MOST),
        ([ASKS, calls("a" * 41)], "is not taken", OPENAI),
        ([ASKS, calls("call_1")], "is not taken", MISTRAL),
        ([calls("a23456789"), ANSWERS | {"tool_call_id": "a23456789"}, ASKS], "the model speaks first", MISTRAL),
        ([calls("a23456789"), ANSWERS | {"tool_call_id": "a23456789"}] * 2, "an id that an earlier call has", MISTRAL),
    ],
)  # fmt: skip
def test_what_chat_completions_refuse(messages: list[Json], rule: str, rules: ChatRules) -> None:
    refuses(partial(check_chat, rules=rules), {"messages": messages}, rule)


def asked(content: Any = "go") -> Json:
    return {"type": "message", "role": "user", "content": content}


def called(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **fields}


GIVES: Json = {"type": "function_call_output", "call_id": "a", "output": "1"}
SAYS: Json = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
THINKS: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ([], "there is nothing in it"),
        ([asked(), called()], r"the calls \['a'\] have no output"),
        ([asked(), called(), asked(), GIVES], r"the calls \['a'\] have no output"),
        ([asked(), GIVES], "an output of no call"),
        ([asked(), called(), GIVES, GIVES], "an output of no call"),
        ([asked(), called(), GIVES | {"type": "custom_tool_call_output"}], "of one of another kind"),
        ([asked(), called(), GIVES | {"output": None}], "an output is a text or a list of parts"),
        ([asked(), called(), GIVES, called(), GIVES], "a call_id that an earlier call has"),
        ([asked(), called("a" * 65)], "a call_id has 1 to 64 characters"),
        ([asked(), called(name="f.g")], "the name 'f.g' is not taken"),
        ([asked(), called(arguments="[]")], "not a JSON object"),
        ([asked("")], "a text that is empty"),
        ([asked([])], "a message without content"),
        ([asked(), SAYS | {"content": [{"type": "output_text", "text": ""}]}], "a text that is empty"),
        ([asked(), THINKS, asked()], "is not followed by what it led to"),
        ([asked(), THINKS], "is not followed by what it led to"),
        ([asked(), {"type": "reasoning", "id": "rs_1"}, SAYS], "reasoning has a summary"),
        ([asked(), THINKS, SAYS, THINKS, SAYS], "a second item with the id 'rs_1'"),
        ([asked(), called(id="call_1"), GIVES], "does not begin with fc"),
    ],
)  # fmt: skip
def test_what_responses_refuse(items: list[Json], rule: str) -> None:
    refuses(check_responses, {"input": items}, rule)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def person(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks or [text("go")])}


def model(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks or [text("Hi")])}


def use(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}, **fields}


def gives(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text("1")], **fields}


THOUGHT: Json = {"type": "thinking", "thinking": "hm", "signature": "s"}
SEARCH: Json = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([], "there is none"),
        ([model()], "user and assistant speak in turn, user first"),
        ([person(), person()], "user and assistant speak in turn"),
        ([person(), {"role": "assistant", "content": []}], "a message without content"),
        ([person(text(" "))], "a text that is blank"),
        ([person(), model(text("Hi "))], "the last text of the model ends in white space"),
        ([person(), model(use())], r"the calls \['a'\] have no result"),
        ([person(), model(use()), person()], "one result for each"),
        ([person(), model(use()), person(gives(), gives())], "one result for each"),
        ([person(), model(use(), use("b")), person(gives())], "one result for each"),
        ([person(gives())], "one result for each"),
        ([person(), model(use()), person(gives()), model(), person(gives())], "one result for each"),
        ([person(), model(use()), person(text("well"), gives())], "results come first"),
        ([person(), model(use(), use()), person(gives(), gives())], "two calls with one id"),
        ([person(), model(use()), person(gives()), model(use()), person(gives())], "two calls with one id"),
        ([person(), model(use("f:0")), person(gives("f:0"))], "the id 'f:0' is not taken"),
        ([person(), model(use(name="f.g")), person(gives())], "the name 'f.g' is not taken"),
        ([person(), model(use(input="{}")), person(gives())], "the input of a call is not an object"),
        ([person(), model(use()), person(gives(content=[text("")]))], "a text that is blank, in a result"),
        ([person(), model(use()), person(gives(content=[], is_error=True))], "an error has text"),
        ([person(), model(THOUGHT | {"signature": ""}, text("Hi"))], "thinking without a signature"),
        ([person(), model({"type": "redacted_thinking"}, text("Hi"))], "redacted thinking without its data"),
        ([person(), model(THOUGHT | {"cache_control": {}}, text("Hi"))], "cannot be marked for the cache"),
        ([person(), model(text("Hi"), THOUGHT, text("so"))], "a message with thinking begins with it"),
        ([person(), model(THOUGHT)], "a message cannot end in thinking"),
        ([person(THOUGHT)], "a thinking of the user"),
        ([person(), model(gives())], "a tool_result of the assistant"),
        ([person(), model(SEARCH, text("Hi")), person()], "own tools without a result"),
        ([person(), model(FOUND, text("Hi"))], "a web_search_tool_result without its call"),
        ([person(*[text("go") | {"cache_control": {}}] * 5)], "there are 5 marks"),
    ],
)  # fmt: skip
def test_what_anthropic_refuses(messages: list[Json], rule: str) -> None:
    refuses(check_messages, {"messages": messages, "tools": [{"name": "f"}]}, rule)


def test_anthropic_wants_tools_where_there_are_calls() -> None:
    messages = [person(), model(use()), person(gives())]
    refuses(check_messages, {"messages": messages}, "must define tools")
    refuses(check_messages, {"messages": messages, "tools": [{"name": "f.g"}]}, "the name 'f.g' is not taken")
    check_messages({"messages": messages, "tools": [{"name": "f"}]})


def test_anthropic_goes_on_with_its_own_call_at_the_end_and_before_results() -> None:
    check_messages({"messages": [person(), model(SEARCH)]})
    mixed = [person(), model(SEARCH, use()), person(gives()), model(FOUND, text("Hi"))]
    check_messages({"messages": mixed, "tools": [{"name": "f"}]})


def asks_for(*names: str, role: str = "model", **fields: Any) -> Json:
    return {"role": role, "parts": [{"functionCall": {"name": name, "args": {}}, **fields} for name in names]}


def responds(*names: str) -> Json:
    return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {}}} for name in names]}


def says(*parts: Json, role: str = "user") -> Json:
    return {"role": role, "parts": list(parts or [{"text": "go"}])}


@pytest.mark.parametrize(
    ("contents", "rule"),
    [
        ([], "there is none"),
        ([says(role="model")], "the user first"),
        ([says(), says()], "user and model speak in turn"),
        ([says(role="system")], "'system' is not a role"),
        ([{"role": "user", "parts": []}], "a content without parts"),
        ([says({"text": ""})], "a text that is empty"),
        ([says({})], "a part holds one thing"),
        ([says(), asks_for("f")], "calls have no responses"),
        ([says(), asks_for("f"), says()], "not 0 for 1"),
        ([says(), asks_for("f", "g"), responds("f")], "not 1 for 2"),
        ([says(), responds("f")], "0 calls|user and model speak in turn"),
        ([says(), asks_for("f", "g"), responds("g", "f")], "do not answer the calls"),
        ([says(), asks_for("f"), says(*responds("f")["parts"], {"text": "and?"})], "something else beside results"),
        ([asks_for("f", role="user")], "a call of the user"),
        ([says(), says({"functionCall": {"name": ""}}, role="model")], "a call without a name"),
        ([says(), says({"functionCall": {"name": "f", "args": "{}"}}, role="model")], "are not an object"),
        ([says(), asks_for("f"), responds("f")], "the first call is not signed"),
    ],
)  # fmt: skip
def test_what_gemini_refuses(contents: list[Json], rule: str) -> None:
    refuses(partial(check_contents, signs=True), {"contents": contents}, rule)


def test_gemini_wants_no_signature_of_calls_before_the_person_spoke() -> None:
    before = [says(), asks_for("f"), responds("f"), says()]
    check_contents({"contents": before}, signs=True)
    check_contents({"contents": [*before, asks_for("f", thoughtSignature="s"), responds("f")]}, signs=True)
    check_contents({"contents": [says(), asks_for("f"), responds("f")]}, signs=False)


OLLAMA_CALLS: Json = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}],
}
OLLAMA_RESULT: Json = {"role": "tool", "tool_call_id": "a", "tool_name": "f", "content": "1"}


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([{"role": "model", "content": ""}], "'model' is not a role"),
        ([{"role": "user", "content": None}], "the content is a text"),
        ([OLLAMA_CALLS], "have no result"),
        ([OLLAMA_CALLS, ASKS], "have no result right after them"),
        ([ASKS, OLLAMA_RESULT], "does not answer the next call"),
        ([OLLAMA_CALLS, OLLAMA_RESULT | {"tool_name": "g"}], "does not answer the next call"),
        ([{"role": "assistant", "content": " "}], "says nothing, and calls nothing"),
        ([OLLAMA_CALLS | {"tool_calls": [{"function": {"name": "", "arguments": {}}}]}], "a call without a name"),
        ([OLLAMA_CALLS | {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}], "are not an object"),
    ],
)  # fmt: skip
def test_what_ollama_refuses(messages: list[Json], rule: str) -> None:
    refuses(check_ollama, {"messages": messages}, rule)


# What goes back unread


def test_what_a_provider_signed_must_not_change() -> None:
    def signed(dialect: str, name: str) -> tuple[Reasoning, ...]:
        return tuple(Reasoning("hm", opaque={dialect: {name: f"s{number}"}}) for number in (1, 2))

    thoughts = signed("anthropic", "signature")
    sent = [THOUGHT | {"signature": "s1"}, THOUGHT | {"signature": "s2"}]
    check_thoughts_kept(thoughts, {"messages": [person(), model(*sent, text("Hi"))]})
    for wrong in (sent[::-1], [*sent, sent[0]], [THOUGHT | {"signature": "t"}]):
        with pytest.raises(IllegalHistory, match="is not what came, or not in its place"):
            check_thoughts_kept(thoughts, {"messages": [person(), model(*wrong, text("Hi"))]})
    body = {"contents": [asks_for("f", thoughtSignature="t")]}
    with pytest.raises(IllegalHistory):
        check_signatures_kept(signed("gemini", "thoughtSignature"), body, "none")
    with pytest.raises(IllegalHistory):
        check_responses_kept(signed("openai_responses", "encrypted_content"), {"input": [THINKS]})


def test_an_item_that_only_its_provider_knows_is_no_blank_message() -> None:
    for dialect in DECODERS:
        check_history((GO, UnknownItem({"odd": 1}), user("and?")), dialect)
