"""One browser for the tests of a file, and a fresh page for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from .browsing import Chat, browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Not for the whole session: while it is open an event loop runs in this thread, and no other may."""
    with browser() as launched:
        yield launched


@pytest.fixture
def chat(chromium: Browser) -> Iterator[Chat]:
    """The page on a desk. The browser has to find nothing wrong with it."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    chat = Chat(context.new_page())
    yield chat
    context.close()
    assert chat.complaints == []
