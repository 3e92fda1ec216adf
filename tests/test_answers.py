"""Structured output, with a scripted model."""

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field

from streamkit.answers import answer
from streamkit.errors import AnswerError, CutAnswer, DefinitionError, InvalidAnswer, NoAnswer, Refused
from streamkit.execution.execute import execute_all
from streamkit.flows.flow import Sink, flow
from streamkit.items import Message, Usage, user
from streamkit.parts import NextItem, UsageReported
from streamkit.testing.scripted import ScriptedModel, ScriptTurn, call, stop
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import ReasoningDelta, RefusalDelta, TextDelta, TurnEnded, TurnEvent, TurnRequest

from .calling import call as call_of

ASK = TurnRequest((user("How is the weather?"),))


@dataclass
class Weather:
    city: str
    degrees: int = 20


class Row(NamedTuple):
    name: str
    size: int


class Filter(TypedDict):
    word: str


class Place(BaseModel):
    x: int = Field(ge=0)


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: int


WEATHER = '{"city": "Oslo", "degrees": 3}'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


# What is asked, and what comes back


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Weather, WEATHER, Weather("Oslo", 3)),
        (Weather, '{"city": "Oslo", "degrees": "3"}', Weather("Oslo", 3)),
        (Filter, '{"word": "a"}', {"word": "a"}),
        (Cat, '{"type": "Cat", "lives": 9}', Cat(9)),
        (Place, '{"x": 1}', Place(x=1)),
        (SCHEMA, '{"n": 3, "more": null}', {"n": 3, "more": None}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
    ],
    ids=str,
)
async def test_an_object_is_asked_for_as_it_is(kind: Any, text: str, value: object) -> None:
    model = ScriptedModel([text])
    assert await answer(model, ASK, kind) == value
    output = model.requests[0].output
    assert output is not None
    assert output["type"] == "object"
    assert "value" not in output.get("properties", {})


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (Literal["yes", "no"], '"yes"', "yes"),
        (int | None, "null", None),
        (bool, "true", True),
        (str, '"a text"', "a text"),
        (Row, '["a", 3]', Row("a", 3)),
        (Cat | Dog, '{"type": "Dog", "tricks": 2}', Dog(2)),
        (list[Place], '[{"x": 1}]', [Place(x=1)]),
    ],
    ids=str,
)
async def test_anything_else_stands_in_an_object_which_a_model_may_leave_away(
    kind: Any, text: str, value: object
) -> None:
    wrapped = f'{{"value": {text}}}'
    model = ScriptedModel([wrapped], [text])
    assert [await answer(model, ASK, kind), await answer(model, ASK, kind)] == [value, value]
    output = model.requests[0].output
    assert output is not None
    assert (output["type"], output["required"], list(output["properties"])) == ("object", ["value"], ["value"])


async def test_the_schema_has_the_name_of_the_type_and_the_rest_of_the_request_stays() -> None:
    model = ScriptedModel([WEATHER])
    await answer(model, msgspec.structs.replace(ASK, instructions="Be brief", temperature=0.5), Weather)
    (request,) = model.requests
    assert (request.output or {})["title"] == "Weather"
    assert (request.history, request.instructions, request.temperature) == (ASK.history, "Be brief", 0.5)
    assert (request.tool_choice, request.tools) == ("auto", ())


async def test_a_schema_is_told_as_it_was_given() -> None:
    model = ScriptedModel(['{"n": 3}'])
    await answer(model, ASK, SCHEMA)
    assert model.requests[0].output == SCHEMA


@pytest.mark.parametrize("kind", [complex, list[complex], {"type": "array"}, {"type": "text"}], ids=str)
def test_a_type_that_no_schema_describes_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(DefinitionError):
        _ = answer(ScriptedModel(), ASK, kind)


def test_a_number_of_repairs_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="max_repairs"):
        _ = answer(ScriptedModel(), ASK, int, max_repairs=-1)


# How the text is read


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{WEATHER}\n```",
        f"\n ```\n{WEATHER}```\n",
        f"```JSON \n{WEATHER}\n  ```",
        f"```json\r\n{WEATHER}\r\n```\r\n",
        json.dumps(json.loads(WEATHER), indent=2) + "\n",
    ],
)
async def test_a_fence_around_the_json_is_taken_off(text: str) -> None:
    assert await answer(ScriptedModel([text]), ASK, Weather) == Weather("Oslo", 3)


async def test_a_fence_inside_the_json_stays() -> None:
    text = json.dumps("```python\npass\n```")
    assert await answer(ScriptedModel([f"```json\n{text}\n```"]), ASK, str) == "```python\npass\n```"


@pytest.mark.parametrize(
    "text",
    [
        f"Here it is: {WEATHER}",
        f"{WEATHER} Anything else?",
        f"Sure!\n```json\n{WEATHER}\n```",
        f"```json\n{WEATHER}\n```\n```json\n{WEATHER}\n```",
        WEATHER + WEATHER,
        WEATHER[:-1],
        "{'city': 'Oslo'}",
        '{"city": "Oslo", "degrees": NaN}',
        "[" * 100_000,
    ],
    ids=["before", "after", "before a fence", "two fences", "two", "cut", "python", "NaN", "deep"],
)
async def test_no_part_of_a_text_is_guessed_to_be_the_answer(text: str) -> None:
    with pytest.raises(InvalidAnswer, match="the answer is n"):
        await answer(ScriptedModel([text]), ASK, Weather, max_repairs=0)


async def test_a_fence_full_of_blanks_is_read_in_a_moment() -> None:
    """Small models write blanks without end. Work that grew with their square would take hours."""
    with pytest.raises(InvalidAnswer):
        await answer(ScriptedModel(["```\n" + " " * 1_000_000 + "x"]), ASK, Weather, max_repairs=0)


async def test_the_answer_may_be_in_pieces_or_come_last() -> None:
    in_pieces = ScriptedModel([WEATHER[:5], NextItem(), WEATHER[5:]])
    comes_last = ScriptedModel(["I looked it up.", ReasoningDelta("hm"), WEATHER])
    for model in (in_pieces, comes_last):
        assert await answer(model, ASK, Weather) == Weather("Oslo", 3)


# A second try


async def test_what_was_wrong_is_told_and_the_model_asked_again() -> None:
    model = ScriptedModel(['{"town": "Oslo"}'], [WEATHER])
    assert await answer(model, ASK, Weather) == Weather("Oslo", 3)
    first, second = (request.history for request in model.requests)
    assert second[:2] == (*first, Message("assistant", '{"town": "Oslo"}'))
    assert isinstance(second[2], Message)
    assert second[2].role == "user"
    for said in ("city: required, but missing", "received fields: town", '"properties": {"city"', "JSON alone"):
        assert said in second[2].text
    assert model.requests[1].output == model.requests[0].output


@pytest.mark.parametrize("max_repairs", [0, 1, 3])
async def test_after_so_many_tries_it_is_an_error_with_the_last_turn(max_repairs: int) -> None:
    model = ScriptedModel(*[['{"city": 3}']] * 10)
    with pytest.raises(InvalidAnswer, match="city: expected string, but got 3") as raised:
        await answer(model, ASK, Weather, max_repairs=max_repairs)
    assert len(model.requests) == max_repairs + 1
    assert raised.value.turn.text == '{"city": 3}'


async def test_text_that_a_consumer_has_seen_is_not_asked_for_again() -> None:
    opened, tapped, in_a_flow = (ScriptedModel(["{}"], [WEATHER]) for _ in range(3))
    with pytest.raises(InvalidAnswer):
        async with answer(opened, ASK, Weather).open() as events:
            async for _ in events:
                pass
    with pytest.raises(InvalidAnswer):
        await answer(tapped, ASK, Weather).tap(lambda event: None)

    @flow
    async def work(out: Sink[TurnEvent]) -> Weather:
        return await out.forward(answer(in_a_flow, ASK, Weather))

    with pytest.raises(InvalidAnswer):
        async with work().open() as events:
            async for _ in events:
                pass
    assert [len(model.requests) for model in (opened, tapped, in_a_flow)] == [1, 1, 1]


async def test_under_await_nobody_has_seen_text_however_deep_it_is() -> None:
    model = ScriptedModel(["{}"], [WEATHER])

    @flow
    async def work(out: Sink[TurnEvent]) -> Weather:
        return await out.forward(answer(model, ASK, Weather))

    assert await work().map(str).filter(bool).then(lambda weather: weather.degrees) == 3


async def test_a_tool_that_hears_its_input_sees_no_text() -> None:
    @tool(on_input=lambda event: None)
    def search(query: str) -> str:
        """Search."""
        return query

    model = ScriptedModel(["{}"], [WEATHER])
    assert await Toolkit(search).listen(answer(model, ASK, Weather)) == Weather("Oslo", 3)


async def test_reasoning_may_be_seen_and_the_answer_asked_for_again() -> None:
    model = ScriptedModel([ReasoningDelta("hm"), stop("pause")], [ReasoningDelta("so"), WEATHER])
    async with answer(model, ASK, Weather).open() as events:
        seen = [event async for event in events]
    assert events.value == Weather("Oslo", 3)
    assert sum(isinstance(event, TurnEnded) for event in seen) == 2
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == WEATHER


async def test_all_tries_are_charged_to_the_call_that_asked() -> None:
    model = ScriptedModel(["{}", UsageReported(Usage(10, 1))], [WEATHER, UsageReported(Usage(20, 2))])

    @tool
    async def look() -> int:
        """Looks."""
        return (await answer(model, ASK, Weather)).degrees

    (result,) = await execute_all(Toolkit(look), [call_of(look)])
    assert getattr(result, "usage", None) == Usage(30, 3)


# No answer


@pytest.mark.parametrize(
    ("parts", "kind", "says"),
    [
        ([RefusalDelta("I must not.")], Refused, 'the model refused: "I must not."'),
        (["No.", stop("refusal")], Refused, 'the model refused: "No."'),
        ([WEATHER, stop("length")], CutAnswer, "at the token limit"),
        ([stop("length")], CutAnswer, "at the token limit"),
        (["{", stop("content_filter")], CutAnswer, "by the filter of the provider"),
        ([WEATHER, stop("unknown")], CutAnswer, "for a reason that is not known"),
        ([], NoAnswer, "without any text"),
        ([" \n", ReasoningDelta("hm")], NoAnswer, "without any text"),
    ],
    ids=str,
)
async def test_what_is_no_answer_is_an_error_of_its_own_and_not_asked_for_again(
    parts: list[Any], kind: type[AnswerError], says: str
) -> None:
    model = ScriptedModel(parts, [WEATHER])
    with pytest.raises(kind, match=says) as raised:
        await answer(model, ASK, Weather, max_repairs=3)
    assert type(raised.value) is kind
    assert raised.value.turn.items or not parts or len(parts) == 1
    assert len(model.requests) == 1


def test_each_kind_of_error_has_a_word_of_its_own() -> None:
    kinds = [kind.kind for kind in (AnswerError, NoAnswer, Refused, CutAnswer, InvalidAnswer)]
    assert len(set(kinds)) == 5


# Tools and pauses


@tool
async def read(p: str) -> str:
    """Reads."""
    return p


WITH_TOOLS = msgspec.structs.replace(ASK, tools=Toolkit(read).specs)


async def test_tools_are_known_but_a_call_is_no_answer() -> None:
    model = ScriptedModel([WEATHER], [call("read", {"p": "a"}), WEATHER], [call("read", {"p": "a"})])
    assert await answer(model, WITH_TOOLS, Weather) == Weather("Oslo", 3)
    assert (model.requests[0].tool_choice, model.requests[0].tools) == ("none", WITH_TOOLS.tools)
    for _ in range(2):
        with pytest.raises(NoAnswer, match="called read instead of answering"):
            await answer(model, WITH_TOOLS, Weather)


async def test_a_call_of_a_turn_that_paused_does_not_go_on() -> None:
    model = ScriptedModel([call("read", {"p": "a"}), "Wait.", stop("pause")], [WEATHER])
    await answer(model, WITH_TOOLS, Weather)
    assert model.requests[1].history == (*ASK.history, Message("assistant", "Wait."))


async def test_a_model_that_pauses_goes_on_with_its_history_as_it_is() -> None:
    model = ScriptedModel(["Let me see.", stop("pause")], [WEATHER])
    assert await answer(model, ASK, Weather, max_repairs=0) == Weather("Oslo", 3)
    assert model.requests[1].history == (*ASK.history, Message("assistant", "Let me see."))
    pause: ScriptTurn = ["…", stop("pause")]
    for_ever = ScriptedModel(*[pause] * 100)
    with pytest.raises(CutAnswer, match="after 16 pauses"):
        await answer(for_ever, ASK, Weather)


def test_a_request_is_asked_for_by_name() -> None:
    history: Any = (user("Hi"),)
    with pytest.raises(TypeError, match="TurnRequest"):
        _ = answer(ScriptedModel(["1"]), history, int)
