"""The chat page in Chromium: what a person sees of a run, and how it is steered."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest
from playwright.sync_api import Browser, expect

from recipes.web_chat.recipe import FieldByField, site
from recipes.web_chat.recipe import chat as recipe_chat
from recipes.web_chat.scripted import Scripted
from streamkit import (
    ProviderError,
    RunEvent,
    Sink,
    ToolError,
    Toolkit,
    ToolOutput,
    converse,
    count,
    last,
    streaming_tool,
    tool,
    user,
)
from streamkit.testing import ScriptedModel, call, stop
from streamkit.tool_input import InputDelta, InputEnd, InputStart

from .browsing import SCREENSHOTS, Chat, Gate, browser, chats
from .parts import needs_browser
from .serving import serve

pytestmark = needs_browser

SMUGGLED = "<img src=x onerror=\"document.title='smuggled'\"><script>document.title='smuggled'</script>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as launched:
        yield launched


@pytest.fixture
def chat(chromium: Browser) -> Iterator[Chat]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    chat = Chat(context.new_page())
    yield chat
    context.close()
    assert chat.complaints == []


@tool(approval=True, origin="mail.example.org, as you")
async def send(to: Literal["Ann", "Bob"], text: str, copies: int = 1) -> str:
    """Send a mail."""
    return f"{copies} to {to}: {text}"


@tool
async def hang() -> str:
    """Never comes to an end."""
    await anyio.sleep_forever()
    raise AssertionError


def told(model: ScriptedModel) -> list[str]:
    """What the model was told by its tools."""
    return [item.text for item in model.requests[-1].history if isinstance(item, ToolOutput)]


MAIL = {"to": "Ann", "text": "We meet at noon."}


# Watching


def test_a_card_opens_with_the_name_of_a_call_and_its_fields_grow(chat: Chat) -> None:
    begun, half, whole = Gate(), Gate(), Gate()
    model = ScriptedModel(
        lambda _: [*_pieces(begun, '{"to": "Ann", "text": "We meet', half, ' at noon."}', whole)], ["Sent."]
    )
    with chats(model, send) as url:
        chat.page.goto(url)
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


def _pieces(*parts: str | Gate) -> Iterator[Any]:
    """A call of `send` that is written in these pieces."""
    yield InputStart(None, "a", "send")
    for part in parts:
        yield InputDelta(part, call_id="a") if isinstance(part, str) else part
    yield InputEnd(call_id="a")
    yield stop("tool_calls")


def test_cards_of_an_inner_run_stand_within_the_card_of_its_call(chat: Chat) -> None:
    inner = ScriptedModel(["I ask.", call("look", {"at": "the moon"})], ["It is there."])

    @tool
    async def look(at: str) -> str:
        """Look."""
        return f"I see {at}"

    @tool
    async def delegate(out: Sink[RunEvent]) -> str:
        """Ask somebody else."""
        await out.forward(converse(FieldByField(inner), Toolkit(look), (user("Is there a moon?"),)))
        return "There is a moon."

    with chats(ScriptedModel([call("delegate")], ["So it is."]), delegate) as url:
        chat.page.goto(url)
        chat.say("Is there a moon?")
        chat.ends("Answered")
        within = chat.card("delegate", "done").locator(".nested")
        expect(within.locator(".said")).to_have_text(["I ask.", "It is there."])
        expect(within.locator(".card[data-state=done] h3")).to_have_text("look")
        expect(within.locator("dd")).to_have_text("the moon")
        expect(chat.answer).to_have_text("So it is.")


def test_the_value_that_the_model_got_opens_and_closes(chat: Chat) -> None:
    @tool
    async def recite() -> str:
        """Say it all."""
        return "first line\nlast line"

    with chats(ScriptedModel([call("recite")], ["Done."]), recite) as url:
        chat.page.goto(url)
        chat.say("Recite")
        value = chat.card("recite", "done").locator(".value")
        expect(value.locator("pre")).not_to_be_visible()
        value.locator("summary").click()
        expect(value.locator("pre")).to_have_text("first line\nlast line", use_inner_text=True)


def test_a_call_that_goes_nowhere_leaves_and_says_why(chat: Chat) -> None:
    cut = call("send", '{"to": "Ann", "text": "We m', ends=False)
    with chats(ScriptedModel([cut, stop("length")]), send) as url:
        chat.page.goto(url)
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

    with chats(ScriptedModel([call("fail")], ["It failed."]), fail) as url:
        chat.page.goto(url)
        chat.say("Try")
        expect(chat.card("fail", "failed").locator(".problem")).to_have_text("the disk is full")
        expect(chat.answer).to_have_text("It failed.")


def test_a_run_that_fails_says_so_and_the_next_message_goes_on(chat: Chat) -> None:
    model = ScriptedModel(["So f", ProviderError("overloaded")], ["Here I am again."])
    with chats(model) as url:
        chat.page.goto(url)
        chat.say("Hello?")
        chat.ends("Failed")
        expect(chat.run.locator(".problem")).to_have_text("overloaded")
        chat.say("And now?")
        expect(chat.answer).to_have_text("Here I am again.")


def test_ten_thousand_events_are_one_bar_and_a_few_lines(chat: Chat) -> None:
    @streaming_tool(reduce=count())
    async def work() -> AsyncIterator[object]:
        """Work."""
        for done in range(1, 10_001):
            yield {"done": done, "total": 10_000}
            yield f"step {done}"

    with chats(ScriptedModel([call("work")], ["Done."]), work) as url:
        chat.page.goto(url)
        chat.say("Work")
        chat.ends("Answered")
        card = chat.card("work", "done")
        expect(card.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "100")
        expect(card.locator(".figures span")).to_have_text(["10,000 of 10,000", "100 %"])
        expect(card.locator(".lines div")).to_have_count(7)
        expect(card.locator(".lines div").last).to_have_text("step 10000")


def test_a_hundred_thousand_characters_are_all_there(chat: Chat) -> None:
    words = [f"word{number} " + "\n\n" * (number % 50 == 49) for number in range(12_000)]
    with chats(ScriptedModel(words)) as url:
        chat.page.goto(url)
        chat.say("Talk")
        chat.ends("Answered")
        assert str(chat.answer.text_content()).split() == "".join(words).split()
        expect(chat.answer.locator("p")).to_have_count(240)


def test_what_is_read_does_not_move_while_more_comes(chat: Chat) -> None:
    gate = Gate()
    lines = [f"Line {number}\n\n" for number in range(200)]
    with chats(ScriptedModel([*lines, gate, *lines])) as url:
        chat.page.goto(url)
        chat.say("Talk")
        expect(chat.answer.locator("p")).to_have_count(200)
        expect(chat.page.get_by_text("Line 199", exact=True)).to_be_in_viewport()
        chat.page.get_by_text("Line 20", exact=True).scroll_into_view_if_needed()
        gate.open()
        expect(chat.answer.locator("p")).to_have_count(400)
        expect(chat.page.get_by_text("Line 20", exact=True).first).to_be_in_viewport()
        chat.page.locator("#thread").focus()
        chat.page.keyboard.press("End")
        expect(chat.run.locator(".tail")).to_be_in_viewport()


def test_html_in_names_arguments_output_and_text_does_not_act(chat: Chat) -> None:
    @streaming_tool(reduce=last(str))
    async def show(text: str) -> AsyncIterator[str]:
        """Show."""
        yield SMUGGLED + text

    @tool
    async def fail(text: str) -> str:
        """Fails."""
        raise ToolError(SMUGGLED)

    @tool(approval=True, origin=SMUGGLED, description=SMUGGLED)
    async def ask(text: str) -> str:
        return SMUGGLED

    smuggling = {"text": SMUGGLED}
    model = ScriptedModel(
        [SMUGGLED, *(call(name, smuggling) for name in ("show", "fail", "ask", SMUGGLED))], [SMUGGLED]
    )
    with chats(model, show, fail, ask) as url:
        chat.page.goto(url)
        chat.say(SMUGGLED)
        chat.card("ask", "waiting").get_by_role("button", name="Allow", exact=True).click()
        chat.ends("Answered")
        for value in chat.page.locator(".value summary").all():
            value.click()
        assert str(chat.run.text_content()).count(SMUGGLED) > 12
        assert chat.page.locator("img, #thread script").count() == 0
        expect(chat.page).to_have_title("streamkit")


# Deciding


def test_a_call_runs_when_it_is_allowed(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL)], ["Sent."])
    with chats(model, send) as url:
        chat.page.goto(url)
        chat.say("Write to Ann")
        card = chat.card("send", "waiting")
        expect(card.locator(".decision p")).to_have_text(
            ["Send a mail.", "mail.example.org, as you. Does something new each time it runs."]
        )
        expect(chat.page.locator("#announcer")).to_have_text("send waits for you to decide.")
        chat.button("Allow").click()
        expect(chat.answer).to_have_text("Sent.")
    assert told(model) == ["1 to Ann: We meet at noon."]


def test_a_call_is_edited_and_what_does_not_fit_is_told(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL)], ["Sent."])
    with chats(model, send) as url:
        chat.page.goto(url)
        chat.say("Write to Ann")
        chat.button("Edit").click()
        chat.page.get_by_label("to", exact=True).fill("Eve")
        chat.page.get_by_label("copies").fill("two")
        chat.button("Run with these").click()
        expect(chat.page.get_by_role("alert").filter(visible=True)).to_have_text("copies has to be JSON, such as 1")
        chat.page.get_by_label("copies").fill("2")
        chat.button("Run with these").click()
        expect(chat.page.get_by_role("alert").filter(visible=True)).to_contain_text("Eve")
        chat.page.get_by_label("to", exact=True).fill("Bob")
        chat.button("Run with these").click()
        expect(chat.answer).to_have_text("Sent.")
        expect(chat.card("send", "done").locator("dd")).to_have_text(["Bob", "We meet at noon.", "2"])
    assert told(model) == ["2 to Bob: We meet at noon."]
    chat.forgive("409")


def test_a_denial_has_a_reason_that_the_model_reads(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL)], ["Then not."])
    with chats(model, send) as url:
        chat.page.goto(url)
        chat.say("Write to Ann")
        chat.button("Deny").click()
        chat.page.get_by_label("Why not?").fill("she knows already")
        chat.page.keyboard.press("Enter")
        expect(chat.answer).to_have_text("Then not.")
        expect(chat.card("send", "denied")).to_contain_text("she knows already")
    assert "she knows already" in told(model)[0]


def test_always_is_asked_once(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL), call("send", {**MAIL, "to": "Bob"})], [call("send", MAIL)], ["Sent."])
    with chats(model, send) as url:
        chat.page.goto(url)
        chat.say("Write to all")
        expect(chat.card("send", "waiting")).to_have_count(2)
        expect(chat.page).to_have_title("(2) streamkit")
        chat.button("Always allow").first.click()
        expect(chat.answer).to_have_text("Sent.")
    assert len(told(model)) == 3


def test_a_verdict_that_is_refused_is_told_and_may_be_given_again(chat: Chat) -> None:
    with chats(ScriptedModel([call("send", MAIL)], ["Sent."]), send) as url:
        chat.page.goto(url)
        chat.page.route(
            "**/verdicts", lambda route: route.fulfill(status=409, json={"error": "it is too late"}), times=1
        )
        chat.say("Write to Ann")
        chat.button("Allow").click()
        expect(chat.page.get_by_role("alert").filter(visible=True)).to_have_text("it is too late")
        chat.button("Allow").click()
        expect(chat.answer).to_have_text("Sent.")
    chat.forgive("409")


# Stopping


def test_escape_stops_the_run_and_the_next_message_goes_on(chat: Chat) -> None:
    model = ScriptedModel(["I begin.", call("hang")], ["I go on."])
    with chats(model, hang) as url:
        chat.page.goto(url)
        chat.say("Hang")
        expect(chat.card("hang", "running").locator(".state")).to_have_text(re.compile(r"^\d+\.\d s$"))
        chat.page.keyboard.press("Escape")
        chat.ends("Stopped")
        expect(chat.card("hang", "stopped")).to_be_visible()
        chat.say("And now?")
        expect(chat.answer).to_have_text("I go on.")
        chat.ends("Answered")


def test_one_call_is_stopped_and_the_others_go_on(chat: Chat) -> None:
    model = ScriptedModel([call("hang"), call("send", MAIL)], ["One of them."])
    with chats(model, hang, send) as url:
        chat.page.goto(url)
        chat.say("Both")
        chat.button("Stop hang").click()
        expect(chat.card("hang", "stopped")).to_contain_text("the person stopped it")
        chat.button("Allow").click()
        expect(chat.answer).to_have_text("One of them.")


# Losing the page, and the network


def test_a_reload_in_mid_run_picks_the_run_up(chat: Chat) -> None:
    gate = Gate()
    model = ScriptedModel(["Half a ", gate, "sentence.", call("send", MAIL)], ["Sent."])
    with chats(model, send) as url:
        chat.page.goto(url)
        chat.say("Write to Ann")
        expect(chat.answer).to_have_text("Half a")
        chat.page.reload()
        expect(chat.answer).to_have_text("Half a")
        gate.open()
        expect(chat.answer).to_have_text("Half a sentence.")
        expect(chat.card("send", "waiting").locator("dd")).to_have_text(["Ann", "We meet at noon.", "1"])
        chat.page.reload()
        chat.button("Allow").click()
        expect(chat.answer).to_have_text("Sent.")
        chat.page.reload()
        expect(chat.page.get_by_role("heading", level=2)).to_have_text(["Write to Ann"])
        expect(chat.run.locator(".said")).to_have_text(["Half a sentence.", "Sent."])
        chat.button("New chat").click()
        expect(chat.page.locator(".run")).to_have_count(0)


def test_a_cut_of_the_network_is_told_and_nothing_is_lost(chat: Chat) -> None:
    gates = [Gate(), Gate()]
    with chats(ScriptedModel(["One, ", gates[0], "two, ", gates[1], "three."])) as url:
        chat.page.goto(url)
        chat.say("Count")
        expect(chat.answer).to_have_text("One,")
        chat.page.context.set_offline(True)
        expect(chat.page.get_by_role("status")).to_have_text("There is no network")
        gates[0].open()
        chat.page.context.set_offline(False)
        expect(chat.answer).to_have_text("One, two,")
        expect(chat.page.locator("#offline")).not_to_be_visible()
        gates[1].open()
        expect(chat.answer).to_have_text("One, two, three.")
        chat.ends("Answered")
    chat.forgive("ERR_INTERNET_DISCONNECTED")


def test_a_server_that_is_gone_is_told_and_a_message_is_not_lost(chat: Chat) -> None:
    with ExitStack() as server:
        chat.page.goto(server.enter_context(chats(ScriptedModel(["One.", Gate()]))))
        chat.say("Count")
        expect(chat.answer).to_have_text("One.")
        chat.page.route("**/api/runs/**", lambda route: route.abort())
    expect(chat.page.get_by_role("status")).to_have_text(re.compile("The connection is lost"))
    chat.page.unroute_all()
    chat.page.route("**/api/runs/**", lambda route: route.fulfill(status=404))
    chat.button("Try now").click()
    chat.ends("The server has forgotten this run")
    chat.say("And now?")
    expect(chat.page.locator("#refused")).to_have_text("The server cannot be reached; nothing was sent.")
    expect(chat.page.locator("#wish")).to_have_value("And now?")
    chat.forgive("Failed to load resource")


# By keyboard, on any screen


def test_everything_is_done_with_keys(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL), call("hang")], [call("send", MAIL)], ["Done."])
    keys = chat.page.keyboard
    with chats(model, send, hang) as url:
        chat.page.goto(url)
        keys.type("Write to Ann")
        keys.press("Shift+Enter")
        keys.type("and hang")
        keys.press("Enter")
        expect(chat.page.get_by_role("heading", level=2)).to_have_text("Write to Ann\nand hang", use_inner_text=True)
        expect(chat.card("send", "waiting")).to_be_visible()
        expect(chat.card("hang", "running")).to_be_visible()
        assert chat.focused() == "wish"  # what is typed when a question comes is no answer to it

        _tab_to(chat, "Deny")
        keys.press("Enter")
        keys.type("she knows")
        keys.press("Escape")  # leaves the reason, not the run
        assert chat.focused() == "Deny"
        _tab_to(chat, "Allow")
        keys.press("Space")
        expect(chat.card("send", "done")).to_be_visible()
        assert chat.focused() == "wish"
        _tab_to(chat, "Stop hang")
        keys.press("Enter")
        expect(chat.card("send", "waiting")).to_be_visible()
        _tab_to(chat, "Edit")
        keys.press("Enter")
        keys.press("Escape")
        keys.press("Escape")
        chat.ends("Stopped")


def _tab_to(chat: Chat, name: str) -> None:
    """Go back with Tab until a button has the focus; its outline is seen."""
    for _ in range(30):
        chat.page.keyboard.press("Shift+Tab")
        focused = chat.page.locator(":focus")
        if focused.and_(chat.button(name)).count():
            assert focused.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
            return
    raise AssertionError(f"{name} is not reached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_the_recipe_looks_well(chromium: Browser, tmp_path: Path, width: int, scheme: Literal["light", "dark"]) -> None:
    """Takes the screenshots, for people; here is tested only that nothing is wider than the screen."""
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    look = Chat(context.new_page())

    def picture(name: str) -> None:
        look.page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{scheme}.png", animations="disabled")
        assert look.page.evaluate("() => document.querySelector('#thread').scrollWidth <= innerWidth")

    with serve(site(recipe_chat(Scripted(pause_seconds=0), tmp_path, httpx2.AsyncClient()))) as url:
        look.page.goto(url)
        picture("empty")
        for wish, ends in (
            ("Research a reducer", "Answered"),
            ("Read missing.txt", "Answered"),
            ("Write a novel", "Cut"),
        ):
            look.say(wish)
            look.ends(ends)
            picture(wish.lower().replace(" ", "-"))
        look.say("Send a message")
        look.button("Edit").click()
        picture("edit")
        look.page.keyboard.press("Escape")
        picture("decide")
        look.button("Allow").click()
        look.ends("Answered")
    context.close()
