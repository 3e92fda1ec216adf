"""The chat page in Chromium under hardship: floods, smuggled HTML, reloads, a network that is cut."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import ExitStack

from playwright.sync_api import expect

from streamkit import (
    ToolError,
    count,
    last,
    streaming_tool,
    tool,
)
from streamkit.testing import ScriptedModel, call

from ..parts import needs_browser
from .browsing import MAIL, Chat, Gate, chats, hang, send

pytestmark = needs_browser


SMUGGLED = "<img src=x onerror=\"document.title='smuggled'\"><script>document.title='smuggled'</script>"


def test_ten_thousand_events_are_one_bar_and_a_few_lines(chat: Chat) -> None:
    @streaming_tool(reduce=count())
    async def work() -> AsyncIterator[object]:
        """Work."""
        for done in range(1, 10_001):
            yield {"done": done, "total": 10_000}
            yield f"step {done}"

    with chat.open(ScriptedModel([call("work")], ["Done."]), work):
        chat.say("Work")
        chat.ends("Answered")
        card = chat.card("work", "done")
        expect(card.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "100")
        expect(card.locator(".figures span")).to_have_text(["10,000 of 10,000", "100 %"])
        expect(card.locator(".lines div")).to_have_count(7)
        expect(card.locator(".lines div").first).to_have_text("… 9,994 more")
        expect(card.locator(".lines div").last).to_have_text("step 10000")


def test_a_hundred_thousand_characters_are_all_there(chat: Chat) -> None:
    words = [f"word{number} " + "\n\n" * (number % 50 == 49) for number in range(12_000)]
    with chat.open(ScriptedModel(words)):
        chat.say("Talk")
        chat.ends("Answered")
        assert str(chat.answer.text_content()).split() == "".join(words).split()
        expect(chat.answer.locator("p")).to_have_count(240)


def test_a_text_of_nothing_but_marks_is_shown(chat: Chat) -> None:
    with chat.open(ScriptedModel(["|" * 150_000, "\n\nThat is all."])):
        chat.say("Talk")
        chat.ends("Answered")
        assert chat.answer.text_content() == "|" * 150_000 + "That is all."


def test_messages_may_be_longer_than_what_a_tab_keeps(chat: Chat) -> None:
    count_of_messages, long = 7, "a" * 900_000
    with chat.open(ScriptedModel(*[["Read."]] * count_of_messages)):
        for number in range(count_of_messages):
            chat.page.locator("#wish").evaluate("(wish, text) => (wish.value = text)", f"{number}{long}")
            chat.button("Send").click()
            expect(chat.page.locator(".run")).to_have_count(number + 1)
            chat.ends("Answered")
        chat.page.reload()
        expect(chat.page.locator(".wish").last).to_have_text(re.compile(f"^{number}a+ …$"))
        expect(chat.page.locator(".tail.alive")).to_have_count(0)


def test_what_is_read_does_not_move_while_more_comes(chat: Chat) -> None:
    gate = Gate()
    lines = [f"Line {number}\n\n" for number in range(200)]
    with chat.open(ScriptedModel([*lines, gate, *lines])):
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


def test_the_least_scroll_up_stops_the_text_and_the_way_back_goes_on(chat: Chat) -> None:
    gates = [Gate(), Gate(), Gate(), Gate()]
    lines = [f"Line {number}\n\n" for number in range(40)]
    model = ScriptedModel([*lines, gates[0], "More\n\n", gates[1], *lines, gates[2], *lines, gates[3], "The end."])
    with chat.open(model):
        chat.say("Talk")
        expect(chat.answer.locator("p")).to_have_count(40)
        expect(chat.run.locator(".tail")).to_be_in_viewport()
        chat.page.get_by_text("Line 39", exact=True).hover()
        chat.page.mouse.wheel(0, -8)
        chat.page.wait_for_function("() => thread.scrollHeight - thread.scrollTop - thread.clientHeight > 2")
        gates[0].open()
        expect(chat.answer.locator("p")).to_have_count(41)
        gates[1].open()
        expect(chat.answer.locator("p")).to_have_count(81)
        expect(chat.run.locator(".tail")).not_to_be_in_viewport()
        chat.button("Latest").click()
        gates[2].open()
        expect(chat.answer.locator("p")).to_have_count(121)
        expect(chat.run.locator(".tail")).to_be_in_viewport()
        expect(chat.button("Latest")).not_to_be_visible()
        chat.page.locator("#wish").fill("\n" * 10)  # which takes room from the text
        gates[3].open()
        expect(chat.page.get_by_text("The end.")).to_be_in_viewport()


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
    marked = f"\n\n**{SMUGGLED}** `{SMUGGLED}`\n- {SMUGGLED}\n| {SMUGGLED} |\n```{SMUGGLED}\n{SMUGGLED}\n```\n"
    links = "\n\n[here](javascript:alert(1)) <https://example.org> ![](https://example.org/x.png)"
    model = ScriptedModel(
        [SMUGGLED + marked + links, *(call(name, smuggling) for name in ("show", "fail", "ask", SMUGGLED))], [SMUGGLED]
    )
    with chat.open(model, show, fail, ask):
        chat.say(SMUGGLED)
        chat.card("ask", "waiting").get_by_role("button", name="Allow", exact=True).click()
        chat.ends("Answered")
        for value in chat.page.locator(".value summary").all():
            value.click()
        assert str(chat.run.text_content()).count(SMUGGLED) > 12
        assert chat.page.locator("img, a, #thread script").count() == 0
        expect(chat.page).to_have_title("streamkit")


def test_a_reload_in_mid_run_picks_the_run_up(chat: Chat) -> None:
    gate = Gate()
    model = ScriptedModel(["Half a ", gate, "sentence.", call("send", MAIL)], ["Sent."])
    with chat.open(model, send):
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


def test_a_reload_picks_the_run_up_before_it_shows_those_before(chat: Chat) -> None:
    model = ScriptedModel(["One."], ["Two, ", Gate()])
    with chat.open(model):
        chat.say("Count")
        chat.ends("Answered")
        chat.say("Go on")
        expect(chat.answer).to_have_text("Two,")
        first = chat.page.evaluate("() => JSON.parse(sessionStorage.runs)[0].id")
        chat.page.route(f"**/api/runs/{first}/stream", lambda route: None)  # never answered
        chat.page.reload()
        expect(chat.answer).to_have_text("Two,")


def test_a_cut_of_the_network_is_told_and_nothing_is_lost(chat: Chat) -> None:
    gates = [Gate(), Gate()]
    with chat.open(ScriptedModel(["One, ", gates[0], "two, ", gates[1], "three."])):
        chat.say("Count")
        expect(chat.answer).to_have_text("One,")
        chat.page.context.set_offline(True)
        expect(chat.page.locator("#offline span")).to_have_text("There is no network")
        gates[0].open()
        chat.page.context.set_offline(False)
        expect(chat.answer).to_have_text("One, two,")
        expect(chat.page.locator("#offline")).not_to_be_visible()
        gates[1].open()
        expect(chat.answer).to_have_text("One, two, three.")
        chat.ends("Answered")
    chat.forgive("ERR_INTERNET_DISCONNECTED")


def test_a_stop_that_did_not_reach_the_server_is_told_in_sight(chat: Chat) -> None:
    with chat.open(ScriptedModel([call("hang")]), hang):
        chat.say("Hang")
        expect(chat.card("hang", "running")).to_be_visible()
        for button in ("Stop", "Stop hang"):
            chat.page.context.set_offline(True)
            chat.button(button).click()
            expect(chat.page.locator("#refused")).to_have_text("The server cannot be reached. Try once more.")
            chat.page.context.set_offline(False)
            expect(chat.page.locator("#offline")).not_to_be_visible()
        chat.button("Stop").click()
        chat.ends("Stopped")
        expect(chat.page.locator("#refused")).not_to_be_visible()
    chat.forgive("ERR_INTERNET_DISCONNECTED")


def test_a_server_that_is_gone_is_told_and_a_message_is_not_lost(chat: Chat) -> None:
    with ExitStack() as server:
        chat.page.goto(server.enter_context(chats(ScriptedModel(["One.", Gate()]))))
        chat.say("Count")
        expect(chat.answer).to_have_text("One.")
        chat.page.evaluate("() => void PAUSES_SECONDS.fill(1_000_000)")  # it does not try again by itself
    expect(chat.page.locator("#offline span")).to_have_text(re.compile("Connection lost"))
    chat.page.route("**/api/runs/**", lambda route: route.fulfill(status=404))
    chat.button("Try now").click()
    chat.ends("The server has forgotten this run")
    chat.say("And now?")
    expect(chat.page.locator("#refused")).to_have_text("The server cannot be reached.")
    expect(chat.page.locator("#wish")).to_have_value("And now?")
    chat.forgive("Failed to load resource")
