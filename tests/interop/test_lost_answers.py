"""Clients whose answer is lost on the network, and who send their request again: what they approved runs once."""

import json
from typing import Any

import pytest

from streamkit import Toolkit, ToolOutput, TurnRequest, converse, tool
from streamkit.journal.memory import memory_journal
from streamkit.testing import ScriptedModel, call
from streamkit.web import RunRequest, app

from .parts import needs_node
from .serving import run_node, serve

pytestmark = needs_node


def what_it_read(request: TurnRequest) -> list[str]:
    return [item.text for item in request.history if isinstance(item, ToolOutput)]


class Mailing:
    """An app that sends a mail when that is approved, and loses one of its answers. sent: to whom."""

    def __init__(self, *, loses: int, journal: Any) -> None:
        self.sent: list[str] = []
        self._left = loses
        model = ScriptedModel([call("send", {"to": "Ann"})], ["Done."], what_it_read)

        @tool(approval=True)
        async def send(to: str) -> str:
            """Send a mail."""
            self.sent.append(to)
            return f"sent to {to}"

        def start(run: RunRequest) -> Any:
            return converse(model, Toolkit(send), run.conversation, authorize=run.authorize, journal=run.journal)

        self._served = app(start, journal=journal)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self._left -= 1
        is_lost = scope["type"] == "http" and self._left == 0

        async def sends(message: Any) -> None:
            if not is_lost:
                await send(message)

        await self._served(scope, receive, sends)  # without a response the server closes the connection, or says 500


@pytest.mark.parametrize("with_journal", [False, True])
@pytest.mark.parametrize(
    ("script", "path", "plan"),
    [
        ("use_chat.mjs", "/ai-sdk", [{"say": "go"}, {"answer": {"send": True}}, {"again": True}, {"say": "Well?"}]),
        ("ag_ui.mjs", "/ag-ui", [{"say": "go"}, {"approve": True}, {"approve": True}, {"approve": "cancelled"}]),
    ],
)
def test_what_is_sent_again_is_refused_and_the_person_may_speak_on(
    script: str, path: str, plan: Any, with_journal: bool
) -> None:
    mailing = Mailing(loses=2, journal=memory_journal() if with_journal else None)
    with serve(mailing) as url:
        seen = run_node(script, f"{url}{path}", json.dumps(plan))
    assert mailing.sent == ["Ann"]
    assert "was decided already" in json.dumps(seen)
    messages = seen["messages"] if isinstance(seen, dict) else seen[-1]["messages"]
    assert "may have happened" in json.dumps(messages[-1]), "and the conversation goes on"
