"""Runs for `useChat`: the client holds the conversation, approves in it, and picks a run up after a reload."""

import json
from typing import Any

import pytest

from streamkit.execution.desk import ApprovalDesk
from streamkit.items import user
from streamkit.journal.memory import memory_journal
from streamkit.testing.leftovers import nothing_left
from streamkit.testing.scripted import call
from streamkit.web import WebApp, app
from streamkit.web.ai_sdk_routes import ChatRun, Chats
from streamkit.web.runs import Run
from streamkit.wire.ai_sdk import AiSdkEncoder

from .asgi import Exchange, asking
from .serving import Agent, Deletes, Hold, get, of_header, post, posting

SAYS_HI = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}


def chunks(asked: Exchange) -> list[dict[str, Any]]:
    said = [line.removeprefix("data: ") for line in asked.text.split("\n\n") if line.startswith("data: ")]
    return [json.loads(each) for each in said if each != "[DONE]"]


def body(*messages: dict[str, Any], chat: str = "chat-1") -> dict[str, Any]:
    return {"id": chat, "messages": list(messages), "trigger": "submit-message", "mine": 1}


async def test_a_message_is_answered() -> None:
    agent = Agent(["Hel", "lo"])
    asked = await post(app(agent), "/ai-sdk", body(SAYS_HI))
    assert asked.status == 200
    assert asked.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert asked.headers["content-type"] == "text/event-stream"
    assert "".join(each["delta"] for each in chunks(asked) if each["type"] == "text-delta") == "Hello"
    assert asked.text.endswith("data: [DONE]\n\n")
    assert agent.asked[0].conversation.history == (user("Hi"),)
    assert agent.asked[0].data == {"trigger": "submit-message", "mine": 1}


async def ask_to_delete(served: WebApp, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """The message of the assistant as a client has it after it was asked to approve."""
    asked = await post(served, "/ai-sdk", body(SAYS_HI), headers)
    said = {each["type"]: each for each in chunks(asked)}
    question, written = said["tool-approval-request"], said["tool-input-available"]
    part = {
        "type": "dynamic-tool",
        "toolName": written["toolName"],
        "toolCallId": written["toolCallId"],
        "state": "approval-responded",
        "input": written["input"],
        "approval": {"id": question["approvalId"], "approved": True},
    }
    if "signature" in question:
        part["approval"]["signature"] = question["signature"]
    return {"id": said["start"]["messageId"], "role": "assistant", "parts": [{"type": "step-start"}, part]}


async def test_an_approval_goes_on_with_the_run() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "a"})], tools=(deletes.tool,))
    served = app(agent)
    approved = await ask_to_delete(served)
    assert deletes.deleted == []
    agent.turns = (["Done"],)
    asked = await post(served, "/ai-sdk", body(SAYS_HI, approved))
    assert asked.status == 200
    assert deletes.deleted == ["a"]
    assert chunks(asked)[0]["messageId"] == approved["id"]


async def test_what_was_approved_here_does_not_run_again_by_another_route() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "a"})], tools=(deletes.tool,))
    served = app(agent)
    approved = await ask_to_delete(served)
    agent.turns = (["Done"],)
    assert (await post(served, "/ai-sdk", body(SAYS_HI, approved))).status == 200
    run_id, execution_id = approved["id"], approved["parts"][1]["approval"]["id"]
    await post(served, f"/runs/{run_id}/verdicts", {"executionId": execution_id, "allow": True})
    assert (await post(served, "/runs", {"after": run_id})).status == 409
    assert deletes.deleted == ["a"]


async def test_nobody_approves_what_another_was_asked() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "a"})], tools=(deletes.tool,))
    served = app(agent, authenticate=of_header("x-user"))
    approved = await ask_to_delete(served, {"x-user": "ann"})
    assert (await post(served, "/ai-sdk", body(SAYS_HI, approved), {"x-user": "bob"})).status == 422
    assert deletes.deleted == []


async def test_what_was_not_asked_cannot_be_approved() -> None:
    deletes = Deletes()
    served = app(Agent([call("delete", {"path": "a"})], tools=(deletes.tool,)))
    approved = await ask_to_delete(served)
    approved["parts"][1]["input"] = {"path": "everything"}
    changed = await post(served, "/ai-sdk", body(SAYS_HI, approved))
    elsewhere = await post(served, "/ai-sdk", body(SAYS_HI, await ask_to_delete(served), chat="chat-2"))
    assert (changed.status, elsewhere.status) == (422, 422)
    assert deletes.deleted == []


async def test_what_was_asked_before_a_restart_can_be_approved_with_the_same_secret() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "a"})], tools=(deletes.tool,))
    approved = await ask_to_delete(app(agent, secret=b"a secret of sixteen bytes"))
    agent.turns = (["Done"],)
    assert (await post(app(agent), "/ai-sdk", body(SAYS_HI, approved))).status == 422
    again = app(agent, secret=b"a secret of sixteen bytes")
    assert (await post(again, "/ai-sdk", body(SAYS_HI, approved))).status == 200
    assert deletes.deleted == ["a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"id": "a"},
        {"id": "", "messages": [SAYS_HI]},
        {"id": 5, "messages": [SAYS_HI]},
        {"id": "a" * 1000, "messages": [SAYS_HI]},
        {"id": "a", "messages": []},
        {"id": "a", "messages": "Hi"},
        {"id": "a", "messages": [{"role": "nobody"}]},
        [],
    ],
)
async def test_a_body_that_gives_no_sense_is_refused(wrong: Any) -> None:
    asked = await post(app(Agent()), "/ai-sdk", wrong)
    assert asked.status == 422
    assert asked.json["error"]


@pytest.mark.parametrize("chat_id", ["chat-1", "team/chat 1", "a/stream"])
async def test_a_run_is_picked_up_from_its_start_by_its_user_alone(chat_id: str) -> None:
    hold = Hold()
    agent = Agent(["One ", call("hold")], ["Done"], tools=(hold.tool,))
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    served = app(agent, journal=memory_journal(), resumable=True, authenticate=of_header("x-user"))
    async with nothing_left(), served.lifespan():
        async with posting(served, "/ai-sdk", body(SAYS_HI, chat=chat_id), ann) as asked:
            await hold.began.wait()
            await asked.until("preliminary")
            asked.leave()
        target = f"/ai-sdk/{chat_id}/stream"  # as a server has decoded it
        assert (await get(served, target, bob)).status == 204
        assert (await get(served, "/ai-sdk/chat-2/stream", ann)).status == 204
        async with asking(served, "GET", target, headers=ann) as again:
            hold.go_on.set()
        assert again.body.startswith(asked.body)
        assert again.text.endswith("data: [DONE]\n\n")
        assert again.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert (await get(served, target, ann)).status == 204


async def test_nothing_is_picked_up_where_nothing_is_written_down() -> None:
    assert (await get(app(Agent()), "/ai-sdk/chat-1/stream")).status == 204


class LookedAt(dict[str, Run]):
    """Runs that count who looks for one."""

    looks = 0

    def get(self, *args: Any) -> Any:
        self.looks += 1
        return super().get(*args)

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)


def test_a_chat_is_begun_without_a_look_at_all_others() -> None:
    runs = LookedAt({f"run-{number}": Run(f"run-{number}", None, desk=ApprovalDesk()) for number in range(200)})
    chats = Chats(runs)
    for number in range(200):
        assert chats.take_over((b"ann", f"chat-{number}"), ChatRun(f"run-{number}", AiSdkEncoder, ())) is None
    assert runs.looks <= 200


def test_chats_whose_runs_have_ended_are_forgotten() -> None:
    runs = {"run-0": Run("run-0", None, desk=ApprovalDesk())}
    chats = Chats(runs)
    for number in range(200):
        chats.take_over((b"ann", f"chat-{number}"), ChatRun(f"run-{number}", AiSdkEncoder, ()))
    assert len(chats) <= 2
    assert chats.get((b"ann", "chat-0")) is not None
    assert chats.get((b"ann", "chat-199")) is None


async def test_another_message_ends_the_run_that_its_chat_left_behind() -> None:
    hold = Hold()
    agent = Agent([call("hold")], ["Done"], tools=(hold.tool,))
    served = app(agent, journal=memory_journal(), resumable=True)
    async with nothing_left(), served.lifespan():
        async with posting(served, "/ai-sdk", body(SAYS_HI)) as asked:
            await hold.began.wait()
            asked.leave()
        agent.turns = (["Well"],)
        await post(served, "/ai-sdk", body(SAYS_HI))
        await hold.ended.wait()
        status = await get(served, f"/runs/{asked.headers['x-run-id']}")
        assert status.json["ended"] == "stopped"
