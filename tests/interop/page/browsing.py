"""The chat page of `recipes.web_chat` in a real browser, and gates that hold a model or a tool until a test says so."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import anyio
import anyio.from_thread
import anyio.lowlevel
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright, expect, sync_playwright

from recipes.web_chat.recipe import site
from streamkit import Model, Tool, Toolkit, ToolOutput, converse, tool
from streamkit.parts import InputDelta, InputEnd, InputStart
from streamkit.testing import ScriptedModel, stop

from ..parts import BROWSER, FOLDER
from ..serving import serve

SCREENSHOTS = FOLDER.parent / "screenshots"
PATIENCE_MILLISECONDS = 60_000
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

expect.set_options(timeout=PATIENCE_MILLISECONDS)


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium, without a window and with nothing of the person who runs the tests."""
    with sync_playwright() as playwright, _launched(playwright) as launched:
        yield launched


@contextmanager
def _launched(playwright: Playwright) -> Iterator[Browser]:
    launched = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
    try:
        yield launched
    finally:
        launched.close()


@contextmanager
def chats(model: Model, *tools: Tool[..., Any]) -> Iterator[str]:
    """The URL of the page, with runs of this model and these tools behind it."""
    toolkit = Toolkit(*tools)
    app = site(
        lambda run: converse(
            model,
            toolkit,
            run.conversation,
            authorize=run.authorize,
            context=run,
            journal=run.journal,
            running=run.running,
        )
    )
    with serve(app) as url:
        yield url


@tool(approval=True, origin="mail.example.org, as you")
async def send(to: Literal["Ann", "Bob"], text: str, copies: int = 1) -> str:
    """Send a mail."""
    return f"{copies} to {to}: {text}"


MAIL = {"to": "Ann", "text": "We meet at noon."}


@tool
async def hang() -> str:
    """Never comes to an end."""
    await anyio.sleep_forever()
    raise AssertionError


class Chat:
    """The page, in the words of a person. complaints: what the browser said was wrong."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    @contextmanager
    def open(self, model: Model, *tools: Tool[..., Any]) -> Iterator[None]:
        """The page, with runs of this model and these tools behind it. It is left before its server goes, or else it
        would soon try to reach that again, and complain.
        """
        with chats(model, *tools) as url:
            self.page.goto(url)
            yield
            self.page.goto("about:blank")

    def forgive(self, what: str) -> None:
        """Of a request that failed, as it had to, a browser complains, too."""
        self.complaints = [each for each in self.complaints if what not in each]

    def say(self, text: str) -> None:
        self.page.locator("#wish").fill(text)
        self.page.keyboard.press("Enter")

    def card(self, name: str, state: str = "") -> Locator:
        named = self.page.locator(f".card[data-state={state}]" if state else ".card")
        heading = self.page.get_by_role("heading", name=name, exact=True, level=3)
        return named.filter(has=self.page.locator("> header").filter(has=heading))

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    @property
    def run(self) -> Locator:
        return self.page.locator(".run").last

    @property
    def answer(self) -> Locator:
        """What the model has said last, to the person."""
        return self.run.locator("> .stream > .said").last

    def ends(self, words: str) -> None:
        expect(self.run.locator(".tail")).to_have_text(re.compile(f"^{words}"))

    def focused(self) -> str:
        """The text, or the name, of what has the focus."""
        return str(self.page.evaluate("() => document.activeElement.textContent || document.activeElement.id"))


class Gate:
    """Holds whoever waits at it, on the server, until the test opens it. Once."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened: anyio.Event | None = None

    async def __call__(self) -> None:
        self._token = anyio.lowlevel.current_token()
        self._opened = anyio.Event()
        self._reached.set()
        await self._opened.wait()

    def open(self) -> None:
        assert self._reached.wait(60), "nobody came to the gate"
        assert self._opened is not None
        anyio.from_thread.run_sync(self._opened.set, token=self._token)


def written(*parts: str | Gate, tool: str = "send") -> Iterator[Any]:
    """For a script: a call that is written in these pieces."""
    yield InputStart(None, "a", tool)
    for part in parts:
        yield InputDelta(part, call_id="a") if isinstance(part, str) else part
    yield InputEnd(call_id="a")
    yield stop("tool_calls")


def told(model: ScriptedModel) -> list[str]:
    """What a model was told by its tools."""
    return [item.text for item in model.requests[-1].history if isinstance(item, ToolOutput)]
