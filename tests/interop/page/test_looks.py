"""The chat page in Chromium, in every state, on a phone and a desk, in light and dark."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, expect

from streamkit import RunEvent, Sink, Tool, ToolError, Toolkit, converse, count, join_text, streaming_tool, tool, user
from streamkit.testing import ScriptedModel, call, stop
from streamkit.turns import ReasoningDelta

from ..parts import needs_browser
from .browsing import MAIL, SCREENSHOTS, Chat, Gate, send, written

pytestmark = needs_browser

SQUARES = "SQUARES = {\n" + "".join(f"    {number}: {number**2},\n" for number in range(40)) + "}\n"
WISH = "Download atlas.bin, write squares.py, and tell Ann. And is there a moon?"


@streaming_tool(reduce=join_text())
async def read(path: str) -> AsyncIterator[str]:
    """Read a file."""
    for line in ("The moon is up there. ", "It has been for a long time."):
        yield line
    if path == "missing.txt":
        raise ToolError(f"there is no file {path}")


@tool
async def write(path: str, content: str) -> str:
    """Write a file."""
    return f"{path} is written."


@tool
async def research(out: Sink[RunEvent], question: str) -> str:
    """Ask a researcher."""
    model = ScriptedModel(["I look for it.", call("read", {"path": "moon.txt"})], ["There is one: it is up there."])
    await out.forward(converse(model, Toolkit(read), (user(question),)))
    return "There is one: it is up there."


def download_until(saved: Gate) -> Tool[..., Any]:
    @streaming_tool(reduce=count())
    async def download(file: str) -> AsyncIterator[object]:
        """Download a file."""
        yield {"bytes": 5_200_000, "total_bytes": 12_000_000}
        await saved()
        yield {"bytes": 12_000_000, "total_bytes": 12_000_000}

    return download


def model_until(half: Gate) -> ScriptedModel:
    text = json.dumps({"path": "squares.py", "content": SQUARES})
    novel = call("write", '{"path": "novel.md", "content": "It was a long w', ends=False)
    return ScriptedModel(
        lambda _: [
            ReasoningDelta("Neither needs the other."),
            "Both at once, then.",
            call("download", {"file": "atlas.bin"}),
            *written(text[:400], half, text[400:], tool="write"),
        ],
        [call("send", MAIL)],
        ["Both files are here, and Ann knows.", call("research", {"question": "Is there a moon?"})],
        [call("read", {"path": "missing.txt"})],
        ["I write it down.", novel, stop("length")],
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_it_fits_on_the_screen_in_every_state(chromium: Browser, width: int, scheme: Literal["light", "dark"]) -> None:
    """Takes the screenshots, by which people tell whether it looks well."""
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    chat = Chat(context.new_page())
    half, saved = Gate(), Gate()

    def picture(state: str) -> None:
        assert chat.page.evaluate("() => document.querySelector('#thread').scrollWidth <= innerWidth")
        if width == 360:
            low = chat.page.evaluate(
                "() => [...document.querySelectorAll('button, summary')].filter((each) => each.checkVisibility())"
                ".map((each) => [each.textContent, each.offsetHeight]).filter(([, height]) => height < 40)"
            )
            assert low == [], "fingers miss it"
        chat.page.screenshot(path=SCREENSHOTS / f"{state}-{width}-{scheme}.png", animations="disabled")

    with chat.open(model_until(half), download_until(saved), write, send, research, read):
        expect(chat.page.get_by_role("heading", level=2)).to_be_in_viewport(ratio=1)
        picture("empty")
        chat.say(WISH)
        expect(chat.card("write", "writing").locator(".long")).to_be_visible()
        picture("writing")
        half.open()
        expect(chat.card("download", "running").locator(".bar")).to_be_visible()
        picture("working")
        context.set_offline(True)
        expect(chat.page.locator("#offline")).to_be_visible()
        picture("disconnected")
        context.set_offline(False)
        saved.open()
        expect(chat.button("Allow")).to_be_visible()
        picture("deciding")
        for way, state in (("Edit", "editing"), ("Deny", "denying")):
            chat.button(way).click()
            picture(state)
            chat.button("Back").click()
        chat.button("Allow").click()
        chat.ends("Cut")
        picture("dropped")
        chat.card("research", "done").scroll_into_view_if_needed()
        picture("nested")
    context.close()
