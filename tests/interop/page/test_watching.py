"""The chat page in Chromium: what a person sees of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator

from playwright.sync_api import expect

from streamkit import (
    Flow,
    Message,
    RunEvent,
    Sink,
    TextDelta,
    ToolError,
    ToolInputAbandoned,
    ToolInputStart,
    Toolkit,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRequest,
    TurnStarted,
    converse,
    count,
    streaming_tool,
    tool,
    user,
)
from streamkit.errors import ProviderError
from streamkit.testing import ScriptedModel, call, stop
from streamkit.turns import TurnRestarted

from ..parts import needs_browser
from .browsing import Chat, Gate, send, written

pytestmark = needs_browser


def test_a_card_opens_with_the_name_of_a_call_and_its_fields_grow(chat: Chat) -> None:
    begun, half, whole = Gate(), Gate(), Gate()
    model = ScriptedModel(
        lambda _: [*written(begun, '{"to": "Ann", "text": "We meet', half, ' at noon."}', whole)], ["Sent."]
    )
    with chat.open(model, send):
        chat.say("Write to Ann")
        card = chat.card("send", "writing")
        expect(card).to_be_visible()
        expect(card.locator("dd")).to_have_count(0)
        begun.open()
        expect(card.locator("dd")).to_have_text(["Ann", "We meet"])
        half.open()
        expect(card.locator("dd")).to_have_text(["Ann", "We meet at noon."])
        whole.open()
        expect(chat.card("send", "waiting").locator("dd")).to_have_text(["Ann", "We meet at noon.", "1"])


MARKED = """# Found

A **record** of *three* functions, `2 * 3`, snake_case_names and 2 * 3 * 4.
- one
  and more of it
- two **within**
  - deeper

1. first
2. second
> somebody
> said so

| name | use |
|------|----:|
| `a` | more |
```python
def f(**of):
    return "- no item"

# no heading
```
---
The [end](https://example.org)."""


def test_the_marks_of_a_text_become_what_they_stand_for(chat: Chat) -> None:
    with chat.open(ScriptedModel([MARKED])):
        chat.say("Talk")
        chat.ends("Answered")
        shown = {
            "h3": ["Found"],
            "p": [
                "A record of three functions, 2 * 3, snake_case_names and 2 * 3 * 4.",
                "The [end](https://example.org).",
            ],
            "strong": ["record", "within"],
            "em": ["three"],
            ":not(pre) > code": ["2 * 3", "a"],
            "ul > li": ["one and more of it", "two within", "deeper"],
            "ol > li": ["first", "second"],
            "blockquote": ["somebody said so"],
            "tr:not([hidden])": ["nameuse", "amore"],
            "th": ["name", "use"],
            "pre": ['def f(**of): return "- no item" # no heading'],
            "hr": [""],
        }
        for selector, texts in shown.items():
            expect(chat.answer.locator(selector)).to_have_text(texts)


def test_text_from_right_to_left_stands_on_the_right(chat: Chat) -> None:
    with chat.open(ScriptedModel([call("look", {"at": "مرحبا"}), "شكرا\n\nThanks."])):
        chat.say("مرحبا")
        directions = {".wish": ["rtl"], "dd": ["rtl"], ".said p": ["rtl", "ltr"]}
        expect(chat.answer.locator("p")).to_have_text(["شكرا", "Thanks."])
        for selector, expected in directions.items():
            found = chat.run.locator(selector).evaluate_all(
                "all => all.map((each) => getComputedStyle(each).direction)"
            )
            assert found == expected


def test_a_list_from_right_to_left_has_its_marks_in_sight(chat: Chat) -> None:
    chat.page.set_viewport_size({"width": 360, "height": 800})
    with chat.open(ScriptedModel(["- شكرا\n  - مرحبا\n- Thanks.\n"])):
        chat.say("Hi")
        chat.ends("Answered")
        assert chat.page.locator("#thread").evaluate("all => all.scrollWidth <= all.clientWidth")
        sides = chat.answer.locator("li").evaluate_all(
            "all => all.map((each) => [getComputedStyle(each).marginLeft, getComputedStyle(each).marginRight])"
        )
        assert sides == [["0px", "22.5px"], ["0px", "45px"], ["22.5px", "0px"]]


def test_how_far_a_tool_is_stands_beside_what_it_says(chat: Chat) -> None:
    shown: list[tuple[dict[str, object], list[str]]] = [
        ({"speed": 3, "done": 5, "total": 10}, ["5 of 10", "", "50 %"]),
        ({"progress": 1.0, "total": 4.0, "message": "page 1"}, ["1 of 4", "page 1", "25 %"]),
        ({"number": 30, "of": 40}, ["30 of 40", "", "75 %"]),
        ({"totalBytes": 2e6, "bytes": 1e6}, ["1.0 MB of 2.0 MB", "", "50 %"]),
        ({"percent": 62, "status": "half"}, ["", "half", "62 %"]),
    ]
    lines: list[tuple[dict[str, object], str]] = [
        ({"progress": 7, "total": None, "message": "page 7"}, "page 7"),
        ({"progress": 8, "total": None}, "8"),
        ({"done": 1, "total": 0}, "1  0"),
        ({"subtotal": 3, "done": 1}, "3  1"),
    ]

    @streaming_tool(reduce=count())
    async def work(place: int) -> AsyncIterator[object]:
        """Work."""
        yield [data for data, _ in (*shown, *lines)][place]

    calls = [call("work", {"place": place}) for place in range(len(shown) + len(lines))]
    with chat.open(ScriptedModel(calls, ["Done."]), work):
        chat.say("Work")
        chat.ends("Answered")
        for place, (_, figures) in enumerate(shown):
            expect(chat.card("work").nth(place).locator(".figures > *")).to_have_text(figures)
        for place, (_, line) in enumerate(lines, len(shown)):
            expect(chat.card("work").nth(place).locator(".lines div")).to_have_text([line])


def test_a_text_looks_the_same_however_it_was_cut(chat: Chat) -> None:
    with chat.open(ScriptedModel([])):
        whole, cut = chat.page.evaluate(
            """text => [[text], [...text]].map((pieces) => {
                const said = new Said("");
                for (const piece of pieces) said.add(piece), said.draw();
                return said.element.outerHTML;
            })""",
            MARKED,
        )
    assert cut == whole


def test_cards_of_an_inner_run_stand_within_the_card_of_its_call(chat: Chat) -> None:
    inner = ScriptedModel(["I ask.", call("look", {"at": "the moon"})], ["It is there."])

    @tool
    async def look(at: str) -> str:
        """Look."""
        return f"I see {at}"

    @tool
    async def delegate(out: Sink[RunEvent]) -> str:
        """Ask somebody else."""
        await out.forward(converse(inner, Toolkit(look), (user("Is there a moon?"),)))
        return "There is a moon."

    with chat.open(ScriptedModel([call("delegate")], ["So it is."]), delegate):
        chat.say("Is there a moon?")
        chat.ends("Answered")
        within = chat.card("delegate", "done").locator(".nested")
        expect(within.locator(".said")).to_have_text(["I ask.", "It is there."])
        expect(within.locator(".card[data-state=done] h3")).to_have_text("look")
        expect(within.locator("dd")).to_have_text("the moon")
        expect(chat.answer).to_have_text("So it is.")


@tool
async def recite() -> str:
    """Say it all."""
    return "first line\nlast line"


def test_the_value_that_the_model_got_opens_and_closes(chat: Chat) -> None:
    with chat.open(ScriptedModel([call("recite")], ["Done."]), recite):
        chat.say("Recite")
        value = chat.card("recite", "done").locator(".value")
        expect(value.locator("pre")).not_to_be_visible()
        value.locator("summary").click()
        expect(value.locator("pre")).to_have_text("first line\nlast line", use_inner_text=True)


def test_what_scrolls_is_reached_with_keys_and_has_a_name(chat: Chat) -> None:
    text = "| a | b |\n|---|---|\n| c | d |\n\n```\ncode\n```\n"
    with chat.open(ScriptedModel([call("recite")], [text]), recite):
        chat.say("Recite")
        chat.ends("Answered")
        chat.run.locator("summary").click()
        for name in ("Table", "Code", "The model got"):
            expect(chat.page.get_by_role("group", name=name, exact=True)).to_have_attribute("tabindex", "0")


def test_a_long_name_leaves_the_state_of_its_call_on_one_line(chat: Chat) -> None:
    @tool(approval=True)
    async def delete_everything_that_is_in_the_folder_and_never_ask_again() -> str:
        """Delete."""
        return "gone"

    chat.page.set_viewport_size({"width": 360, "height": 800})
    model = ScriptedModel([call(delete_everything_that_is_in_the_folder_and_never_ask_again.name)])
    with chat.open(model, delete_everything_that_is_in_the_folder_and_never_ask_again):
        chat.say("Delete")
        state = chat.page.locator(".card .state")
        expect(state).to_have_text("waits for you")
        assert state.evaluate(
            "(each) => each.getClientRects()[0].height < 2 * parseFloat(getComputedStyle(each).fontSize)"
        )


def test_the_states_of_a_call_are_in_words_for_who_does_not_see_them(chat: Chat) -> None:
    running, done = Gate(), Gate()

    @tool
    async def wait() -> str:
        """Wait."""
        await running()
        return "over"

    with chat.open(ScriptedModel([call("wait")], [done, "Done."]), wait):
        chat.say("Wait")
        expect(chat.card("wait").get_by_role("img", name="running")).to_be_visible()
        running.open()
        expect(chat.card("wait").get_by_role("img", name="done")).to_be_visible()
        expect(chat.page.locator("#announcer")).to_have_text("wait is done.")
        done.open()
        chat.ends("Answered")


def test_a_call_that_goes_nowhere_leaves_and_says_why(chat: Chat) -> None:
    cut = call("send", '{"to": "Ann", "text": "We m', ends=False)
    with chat.open(ScriptedModel([cut, stop("length")]), send):
        chat.say("Write to Ann")
        chat.ends("Cut at the token limit")
        card = chat.card("send", "dropped")
        expect(card.locator(".state")).to_have_text("dropped: the turn was cut at its token limit")
        expect(card.locator(".fields")).not_to_be_visible()


def test_failures_are_told_and_the_run_goes_on(chat: Chat) -> None:
    @tool
    async def fail() -> str:
        """Fails."""
        raise ToolError("the disk is full")

    with chat.open(ScriptedModel([call("fail")], ["It failed."]), fail):
        chat.say("Try")
        expect(chat.card("fail", "failed").locator(".problem")).to_have_text("the disk is full")
        expect(chat.answer).to_have_text("It failed.")


def test_a_run_that_fails_says_so_and_the_next_message_goes_on(chat: Chat) -> None:
    model = ScriptedModel(["So f", ProviderError("overloaded")], ["Here I am again."])
    with chat.open(model):
        chat.say("Hello?")
        chat.ends("Failed")
        expect(chat.run.locator(".problem")).to_have_text("overloaded")
        chat.say("And now?")
        expect(chat.answer).to_have_text("Here I am again.")


def test_what_began_anew_is_taken_back(chat: Chat) -> None:
    class Restarting:
        name = "restarting"

        def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
            return Flow(self._run)

        async def _run(self, out: Sink[TurnEvent]) -> Turn:
            turn = Turn("turn_1", items=(Message("assistant", "Hello."),))
            for event in (
                TurnStarted("turn_1", "restarting"),
                TextDelta("Hell"),
                ToolInputStart("a", "send"),
                ToolInputAbandoned("a", "retried"),
                TurnRestarted("the stream broke"),
                TextDelta("Hello."),
                TurnEnded(turn),
            ):
                await out.send(event)
            return turn

    with chat.open(Restarting(), send):
        chat.say("Hello?")
        chat.ends("Answered")
        expect(chat.run.locator(".said")).to_have_text(["Hello."])
        expect(chat.run.locator(".note")).to_have_text("The model began anew: the stream broke")
        expect(chat.card("send", "dropped")).to_contain_text("the model began anew")
