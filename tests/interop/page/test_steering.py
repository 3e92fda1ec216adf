"""The chat page in Chromium: how a person decides about calls, and stops them."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from streamkit import (
    Tool,
    tool,
)
from streamkit.testing import ScriptedModel, call

from ..parts import needs_browser
from .browsing import MAIL, Chat, hang, send, told

pytestmark = needs_browser


def test_a_call_runs_when_it_is_allowed(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL)], ["Sent."])
    with chat.open(model, send):
        chat.say("Write to Ann")
        card = chat.card("send", "waiting")
        expect(card.locator(".decision p")).to_have_text(
            ["Send a mail.", "mail.example.org, as you", "Does something new each time it runs."]
        )
        expect(chat.page.locator("#announcer")).to_have_text("send waits for you to decide.")
        chat.button("Allow").click()
        expect(chat.answer).to_have_text("Sent.")
    assert told(model) == ["1 to Ann: We meet at noon."]


def test_a_call_is_edited_and_what_does_not_fit_is_told(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL)], ["Sent."])
    with chat.open(model, send):
        chat.say("Write to Ann")
        chat.button("Edit").click()
        chat.page.get_by_label("to", exact=True).fill("Eve")
        chat.page.get_by_label("copies").fill("two")
        chat.button("Run with these").click()
        expect(chat.page.get_by_role("alert").filter(visible=True)).to_have_text("copies has to be JSON, such as 1")
        expect(chat.page.get_by_label("copies")).to_be_focused()
        expect(chat.page.get_by_role("alert").filter(visible=True)).to_be_in_viewport(ratio=1)
        chat.page.get_by_label("copies").fill("2")
        chat.button("Run with these").click()
        expect(chat.page.get_by_role("alert").filter(visible=True)).to_contain_text("Eve")
        chat.page.get_by_label("to", exact=True).fill("Bob")
        chat.button("Run with these").click()
        expect(chat.answer).to_have_text("Sent.")
        expect(chat.card("send", "done").locator("dd")).to_have_text(["Bob", "We meet at noon.", "2"])
    assert told(model) == ["2 to Bob: We meet at noon."]
    chat.forgive("409")


def test_what_is_decided_about_is_shown_whole(chat: Chat) -> None:
    text = "".join(f"line {number}\n" for number in range(4_000))
    with chat.open(ScriptedModel([call("send", {**MAIL, "text": text})], ["Sent."]), send):
        chat.say("Write to Ann")
        card = chat.card("send", "waiting")
        assert card.locator("dd").nth(1).text_content() == text
        expect(card.locator("dt").nth(1)).to_have_attribute("data-size", "4,001 lines")


def test_a_part_of_what_is_decided_about_is_called_one(chat: Chat) -> None:
    with chat.open(ScriptedModel([call("send", {**MAIL, "text": "a" * 300_000})], ["Sent."]), send):
        chat.say("Write to Ann")
        expect(chat.card("send", "waiting").locator(".decision")).to_contain_text("too long to be shown whole: 300")


def test_what_is_not_edited_stays_as_it_was(chat: Chat) -> None:
    paid: list[object] = []

    @tool(approval=True)
    async def pay(account: int, others: list[int], text: str, copies: int) -> str:
        """Pay."""
        paid.append((account, others, text, copies))
        return "paid"

    written = {"account": 1234567890123456789, "others": [-9007199254740993], "text": "\r\n a\rb ", "copies": 1}
    with chat.open(ScriptedModel([call("pay", written)], ["Paid."]), pay):
        chat.say("Pay")
        expect(chat.card("pay", "waiting").locator("dd").first).to_have_text("1234567890123456789")
        chat.button("Edit").click()
        chat.page.get_by_label("copies").fill("1234567890123456787")
        chat.button("Run with these").click()
        expect(chat.answer).to_have_text("Paid.")
    assert paid == [(1234567890123456789, [-9007199254740993], "\r\n a\rb ", 1234567890123456787)]


def test_a_denial_has_a_reason_that_the_model_reads(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL)], ["Then not."])
    with chat.open(model, send):
        chat.say("Write to Ann")
        chat.button("Deny").click()
        chat.page.get_by_label("Why not?").fill("she knows already")
        chat.page.keyboard.press("Enter")
        expect(chat.answer).to_have_text("Then not.")
        expect(chat.card("send", "denied")).to_contain_text("she knows already")
    assert "she knows already" in told(model)[0]


def test_always_is_asked_once(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL), call("send", {**MAIL, "to": "Bob"})], [call("send", MAIL)], ["Sent."])
    with chat.open(model, send):
        chat.say("Write to all")
        expect(chat.card("send", "waiting")).to_have_count(2)
        expect(chat.page).to_have_title("(2) streamkit")
        chat.button("Allow for this run").first.click()
        expect(chat.answer).to_have_text("Sent.")
    assert len(told(model)) == 3


def test_a_verdict_that_is_refused_is_told_and_may_be_given_again(chat: Chat) -> None:
    with chat.open(ScriptedModel([call("send", MAIL)], ["Sent."]), send):
        chat.page.route(
            "**/verdicts", lambda route: route.fulfill(status=409, json={"error": "it is too late"}), times=1
        )
        chat.say("Write to Ann")
        chat.button("Allow").click()
        expect(chat.page.get_by_role("alert").filter(visible=True)).to_have_text("it is too late")
        chat.button("Allow").click()
        expect(chat.answer).to_have_text("Sent.")
    chat.forgive("409")


def test_a_tool_without_a_body_is_answered_by_the_person(chat: Chat) -> None:
    ask: Tool[..., Any] = Tool(name="ask", description="Ask the person.", input={"type": "object", "properties": {}})
    model = ScriptedModel([call("ask")], ["I see."])
    with chat.open(model, ask):
        chat.say("Ask me")
        expect(chat.page.locator(".decision p")).to_have_text(["Ask the person."])
        chat.button("Answer").click()
        chat.page.get_by_label("Your answer").fill("forty-two")
        chat.button("Send").click()
        expect(chat.answer).to_have_text("I see.")
    assert told(model) == ["forty-two"]


def test_a_question_out_of_sight_is_a_key_away(chat: Chat) -> None:
    lines = [f"Line {number}\n\n" for number in range(100)]
    with chat.open(ScriptedModel([*lines, call("send", MAIL)], ["Sent."]), send):
        chat.say("Write to Ann")
        expect(chat.card("send", "waiting")).to_be_in_viewport()
        expect(chat.page.locator("#review")).not_to_be_visible()
        chat.page.get_by_text("Line 2", exact=True).scroll_into_view_if_needed()
        chat.button("1 call waits for you").press("Enter")
        expect(chat.button("Allow")).to_be_focused()
        expect(chat.button("Allow")).to_be_in_viewport()


def test_escape_stops_the_run_and_the_next_message_goes_on(chat: Chat) -> None:
    model = ScriptedModel(["I begin.", call("hang")], ["I go on."])
    with chat.open(model, hang):
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
    with chat.open(model, hang, send):
        chat.say("Both")
        chat.button("Stop hang").click()
        expect(chat.card("hang", "stopped")).to_contain_text("the person stopped it")
        chat.button("Allow").click()
        expect(chat.answer).to_have_text("One of them.")


def test_everything_is_done_with_keys(chat: Chat) -> None:
    model = ScriptedModel([call("send", MAIL), call("hang")], [call("send", MAIL)], ["Done."])
    keys = chat.page.keyboard
    with chat.open(model, send, hang):
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
        assert chat.focused() == "wish"
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
