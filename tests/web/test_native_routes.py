"""Runs over HTTP in our own protocol: started, gone on with, decided about, cancelled; without a journal."""

from functools import partial
from typing import Any

import anyio
import pytest
from starlette.exceptions import HTTPException

from streamkit.conversation import Conversation
from streamkit.execution.verdicts import from_verdicts
from streamkit.flows.flow import Flow
from streamkit.items import Message, assistant, user
from streamkit.testing.leftovers import nothing_left
from streamkit.testing.scripted import call
from streamkit.tool_events import RunEvent
from streamkit.web import RunRequest, app

from ..attacks import Boom
from .asgi import ask
from .serving import (
    JSON,
    Agent,
    Deletes,
    Hold,
    find,
    get,
    json_request,
    of_header,
    post,
    posting,
    run_id_of,
    text_of,
    types,
)

# Starting


async def test_a_message_is_answered_with_the_run_as_frames() -> None:
    agent = Agent(["Hel", "lo"])
    asked = await post(app(agent), "/runs", {"message": "Hi", "data": {"mine": 1}})
    assert asked.status == 200
    assert asked.headers["content-type"] == "text/event-stream"
    assert asked.headers["x-accel-buffering"] == "no"
    assert text_of(asked) == "Hello"
    assert types(asked)[0] == "start"
    assert find(asked, "start")["messageId"] == asked.headers["x-run-id"]
    assert find(asked, "finish")["ended"] == "answer"
    assert [frame["#"] for frame in asked.frames] == list(range(1, len(asked.frames) + 1))
    (request,) = agent.asked
    assert request.conversation == Conversation((user("Hi"),))
    assert (request.run_id, request.data, request.user) == (asked.headers["x-run-id"], {"mine": 1}, None)


async def test_a_message_may_have_pictures() -> None:
    agent = Agent(["A cat"])
    body = {"message": {"text": "What is it?", "images": [{"type": "image", "url": "https://example.org/cat.png"}]}}
    await post(app(agent), "/runs", body)
    (item,) = agent.asked[0].conversation.history
    assert isinstance(item, Message)
    assert item.images[0].url == "https://example.org/cat.png"


async def test_a_history_goes_before_the_message() -> None:
    agent = Agent(["Well"])
    history = [
        {"type": "message", "role": "user", "text": "Hi"},
        {"type": "message", "role": "assistant", "text": "Ho"},
    ]
    await post(app(agent), "/runs", {"message": "And now?", "history": history})
    assert agent.asked[0].conversation.history == (user("Hi"), assistant("Ho"), user("And now?"))


async def test_a_history_with_a_call_without_a_result_is_made_whole() -> None:
    agent = Agent(["Well"])
    history = [{"type": "tool_call", "call_id": "a", "name": "read", "arguments": "{}"}]
    await post(app(agent), "/runs", {"message": "And now?", "history": history})
    assert [type(item).__name__ for item in agent.asked[0].conversation.history] == [
        "ToolCall",
        "ToolOutput",
        "Message",
    ]


async def test_a_conversation_goes_on_after_a_run() -> None:
    agent = Agent(["Ho"])
    served = app(agent)
    first = await post(served, "/runs", {"message": "Hi"})
    second = await post(served, "/runs", {"message": "And now?", "after": first.headers["x-run-id"]})
    assert agent.asked[1].conversation.history == (user("Hi"), assistant("Ho"), user("And now?"))
    assert second.headers["x-run-id"] != first.headers["x-run-id"]


async def test_a_conversation_goes_on_after_a_run_that_failed() -> None:
    agent = Agent(["Half a word", Boom()])
    served = app(agent)
    first = await post(served, "/runs", {"message": "Hi"})
    assert types(first)[-1] == "error"
    await post(served, "/runs", {"message": "Again", "after": first.headers["x-run-id"]})
    assert agent.asked[1].conversation.history == (user("Hi"), assistant("Half a word"), user("Again"))


async def test_nothing_follows_a_run_that_goes_on() -> None:
    hold = Hold()
    served = app(Agent([call("hold")], ["Done"], tools=(hold.tool,)))
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        second = await post(served, "/runs", {"message": "Ho", "after": await run_id_of(asked)})
        assert second.status == 409
        hold.go_on.set()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": 5},
        {"history": []},
        {"history": [{"type": "message", "role": "assistant", "text": "Ho"}]},
        {"history": [{"type": "nonsense"}], "message": "Hi"},
        {"message": "Hi", "nonsense": 1},
        {"resume": "a", "message": "Hi"},
        {"after": "a", "history": [], "message": "Hi"},
        {"message": {"text": "Hi", "images": [{"url": "file:///etc/passwd"}]}},
        {"history": [{"type": "message", "role": "user", "text": "Hi", "images": [{"url": "gs://bucket/a.png"}]}]},
        [],
        None,
    ],
)
async def test_a_body_that_gives_no_sense_is_refused(body: Any) -> None:
    asked = await post(app(Agent()), "/runs", body)
    assert asked.status == 422
    assert asked.json["error"]


async def test_what_start_refuses_is_the_answer() -> None:
    def start(run: RunRequest) -> Flow[RunEvent, Conversation]:
        raise HTTPException(429, "one run a minute", {"retry-after": "60"})

    asked = await post(app(start), "/runs", {"message": "Hi"})
    assert (asked.status, asked.json, asked.headers["retry-after"]) == (429, {"error": "one run a minute"}, "60")


async def test_start_that_gives_no_flow_says_so() -> None:
    async def start(run: RunRequest) -> None:
        """No flow."""

    with pytest.raises(TypeError, match="plain function that returns a Flow"):
        await post(app(start), "/runs", {"message": "Hi"})  # type: ignore[arg-type]


async def test_too_many_runs_are_told_to_come_back() -> None:
    hold = Hold()
    served = app(Agent([call("hold")], ["Done"], tools=(hold.tool,)), max_runs=1)
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        await run_id_of(asked)
        refused = await post(served, "/runs", {"message": "Hi"})
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) > 0
        hold.go_on.set()
    assert (await post(served, "/runs", {"message": "Hi"})).status == 200


async def test_a_user_with_too_many_runs_locks_no_other_out() -> None:
    hold = Hold()
    agent = Agent([call("hold")], ["Done"], tools=(hold.tool,))
    served = app(agent, authenticate=of_header("x-user"), max_user_runs=1)
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    async with posting(served, "/runs", {"message": "Hi"}, ann) as asked:
        await run_id_of(asked)
        refused = await post(served, "/runs", {"message": "Hi"}, ann)
        assert (refused.status, "yours" in refused.json["error"]) == (429, True)
        assert int(refused.headers["retry-after"]) > 0
        async with posting(served, "/runs", {"message": "Hi"}, bob) as other:
            await run_id_of(other)
            hold.go_on.set()
    assert (await post(served, "/runs", {"message": "Hi"}, ann)).status == 200


# Leaving and cancelling


async def test_a_client_that_leaves_cancels_its_run() -> None:
    hold = Hold()
    served = app(Agent([call("hold")], ["Done"], tools=(hold.tool,)))
    async with nothing_left(), posting(served, "/runs", {"message": "Hi"}) as asked:
        await hold.began.wait()
        asked.leave()
    assert hold.ended.is_set()
    assert (await get(served, f"/runs/{asked.headers['x-run-id']}")).json["ended"] == "interrupted"


async def test_a_server_that_ends_leaves_no_run_behind() -> None:
    hold = Hold()
    served = app(Agent([call("hold")], tools=(hold.tool,)))
    async with nothing_left(), anyio.create_task_group() as tasks:
        async with served.lifespan():
            asked = json_request({"message": "Hi"})
            tasks.start_soon(partial(ask, served, "POST", "/runs", headers=JSON, exchange=asked))
            await hold.began.wait()
        assert hold.ended.is_set()
        assert asked.is_whole
    assert (asked.frames[-1]["type"], asked.frames[-1]["reason"]) == ("stopped", "the server is shutting down")


async def test_a_run_that_is_cancelled_says_so_last() -> None:
    hold = Hold()
    served = app(Agent([call("hold")], ["Done"], tools=(hold.tool,)))
    async with nothing_left(), posting(served, "/runs", {"message": "Hi"}) as asked:
        await hold.began.wait()
        cancelled = await post(served, f"/runs/{await run_id_of(asked)}/cancel", {"reason": "seen enough"})
        assert cancelled.status == 200
    assert hold.ended.is_set()
    assert asked.frames[-1]["type"] == "stopped"
    assert asked.frames[-1]["reason"] == "seen enough"
    assert (await get(served, f"/runs/{asked.headers['x-run-id']}")).json["ended"] == "stopped"


async def test_a_conversation_goes_on_after_a_run_that_was_cancelled() -> None:
    hold = Hold()
    agent = Agent(["Let me see.", call("hold")], ["Done"], tools=(hold.tool,))
    served = app(agent)
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        await hold.began.wait()
        await post(served, f"/runs/{await run_id_of(asked)}/cancel", {})
    agent.turns = (["Well"],)
    after = await post(served, "/runs", {"message": "Go on", "after": asked.headers["x-run-id"]})
    assert text_of(after) == "Well"
    kinds = [type(item).__name__ for item in agent.asked[1].conversation.history]
    assert kinds == ["Message", "Message", "ToolCall", "ToolOutput", "Message"]


async def test_one_call_is_cancelled_and_the_run_goes_on() -> None:
    hold = Hold()
    served = app(Agent([call("hold")], ["Well"], tools=(hold.tool,)))
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        await asked.until("tool-progress")
        execution_id = find(asked, "tool-start")["executionId"]
        body = {"executionId": execution_id, "reason": "too slow"}
        assert (await post(served, f"/runs/{await run_id_of(asked)}/cancel", body)).status == 200
    assert find(asked, "tool-result")["error"]["kind"] == "cancelled"
    assert text_of(asked) == "Well"


async def test_a_call_that_does_not_run_cannot_be_cancelled() -> None:
    hold = Hold()
    served = app(Agent([call("hold")], ["Well"], tools=(hold.tool,)))
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        target = f"/runs/{await run_id_of(asked)}/cancel"
        refused = await post(served, target, {"executionId": "nonsense"})
        assert (refused.status, refused.json) == (409, {"error": "call nonsense is not known"})
        hold.go_on.set()
    refused = await post(served, target, {})
    assert (refused.status, refused.json) == (409, {"error": "the run has ended"})


# Deciding


async def test_a_question_is_answered_while_the_run_waits() -> None:
    deletes = Deletes()
    served = app(Agent([call("delete", {"path": "a"})], ["Done"], tools=(deletes.tool,)))
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        await asked.until("approval-request")
        question = find(asked, "approval-request")
        run_id = await run_id_of(asked)
        status = (await get(served, f"/runs/{run_id}")).json
        assert (status["running"], status["ended"]) == (True, None)
        (waiting,) = status["waiting"]
        assert waiting == {key: question[key] for key in ("executionId", "toolName", "args", "card")}
        body = {"executionId": question["executionId"], "allow": True, "arguments": {"path": "b"}}
        answered = await post(served, f"/runs/{run_id}/verdicts", body)
        assert (answered.status, answered.json) == (200, {})
        again = await post(served, f"/runs/{run_id}/verdicts", body)
        assert again.status == 409
        assert "answered" in again.json["error"]
    assert deletes.deleted == ["b"]
    assert text_of(asked) == "Done"


async def test_a_question_is_answered_with_no() -> None:
    deletes = Deletes()
    served = app(Agent([call("delete", {"path": "a"})], ["Done"], tools=(deletes.tool,)))
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        await asked.until("approval-request")
        body = {"executionId": find(asked, "approval-request")["executionId"], "allow": False, "reason": "keep it"}
        await post(served, f"/runs/{await run_id_of(asked)}/verdicts", body)
    assert deletes.deleted == []
    error = find(asked, "tool-result")["error"]
    assert error["kind"] == "denied"
    assert "keep it" in error["message"]


async def test_a_verdict_that_cannot_be_taken_changes_nothing() -> None:
    deletes = Deletes()
    served = app(Agent([call("delete", {"path": "a"})], ["Done"], tools=(deletes.tool,)))
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        await asked.until("approval-request")
        target = f"/runs/{await run_id_of(asked)}/verdicts"
        execution_id = find(asked, "approval-request")["executionId"]
        for body in (
            {"executionId": "nonsense", "allow": True},
            {"executionId": execution_id, "allow": True, "arguments": {"path": 5}},
        ):
            refused = await post(served, target, body)
            assert (refused.status, bool(refused.json["error"])) == (409, True)
        assert (await post(served, target, {"executionId": execution_id})).status == 422
        await post(served, target, {"executionId": execution_id, "allow": True})
    assert deletes.deleted == ["a"]


async def test_a_question_that_nobody_answers_in_time_is_denied() -> None:
    deletes = Deletes()
    served = app(Agent([call("delete", {"path": "a"})], ["Done"], tools=(deletes.tool,)), decision_seconds=0.001)
    asked = await post(served, "/runs", {"message": "Hi"})
    assert find(asked, "tool-result")["error"]["kind"] == "denied"


async def test_a_run_that_ended_with_a_question_goes_on_with_its_verdict() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "a"})], tools=(deletes.tool,))

    def start(run: RunRequest) -> Flow[RunEvent, Conversation]:
        if len(agent.asked):
            agent.turns = (["Done"],)
            return agent(run)
        return agent(RunRequest(run.run_id, run.conversation, from_verdicts({}), run.running))

    served = app(start)
    asked = await post(served, "/runs", {"message": "Hi"})
    (execution_id,) = find(asked, "finish")["pending"]
    run_id = asked.headers["x-run-id"]
    status = (await get(served, f"/runs/{run_id}")).json
    assert (status["running"], status["ended"]) == (False, "pending")
    assert [each["executionId"] for each in status["waiting"]] == [execution_id]

    target = f"/runs/{run_id}/verdicts"
    assert (await post(served, target, {"executionId": "nonsense", "allow": True})).status == 409
    assert (await post(served, target, {"executionId": execution_id, "allow": True})).status == 200
    assert (await post(served, target, {"executionId": execution_id, "allow": False})).status == 409
    assert (await get(served, f"/runs/{run_id}")).json["waiting"] == []

    after = await post(served, "/runs", {"after": run_id})
    assert text_of(after) == "Done"
    assert (await post(served, "/runs", {"after": run_id})).status == 409  # sent once more: it is not done once more
    assert deletes.deleted == ["a"]


async def test_who_speaks_on_instead_of_deciding_has_not_allowed_it() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "a"})], tools=(deletes.tool,))
    served = app(lambda run: agent(RunRequest(run.run_id, run.conversation, from_verdicts({}), run.running)))
    asked = await post(served, "/runs", {"message": "Hi"})
    agent.turns = (["Well"],)
    after = await post(served, "/runs", {"after": asked.headers["x-run-id"], "message": "Never mind"})
    assert text_of(after) == "Well"
    assert deletes.deleted == []


# Whose run it is


async def test_a_run_that_nobody_knows_is_not_found() -> None:
    served = app(Agent())
    for run_id in ("nonsense", "a" * 38, "%2e%2e", "a" * 10_000):
        for asked in (
            await get(served, f"/runs/{run_id}"),
            await get(served, f"/runs/{run_id}/stream"),
            await post(served, f"/runs/{run_id}/verdicts", {"executionId": "a", "allow": True}),
            await post(served, f"/runs/{run_id}/cancel", {}),
            await post(served, "/runs", {"message": "Hi", "after": run_id}),
            await post(served, "/runs", {"resume": run_id}),
        ):
            assert (asked.status, asked.json) == (404, {"error": "no such run is known"})


async def test_nobody_watches_or_steers_the_run_of_another() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "a"})], ["Done"], tools=(deletes.tool,))
    served = app(agent, authenticate=of_header("x-user"))
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    async with posting(served, "/runs", {"message": "Hi"}, ann) as asked:
        await asked.until("approval-request")
        run_id = await run_id_of(asked)
        verdict = {"executionId": find(asked, "approval-request")["executionId"], "allow": True}

        async def try_all(headers: dict[str, str]) -> set[int]:
            return {
                (await get(served, f"/runs/{run_id}", headers)).status,
                (await get(served, f"/runs/{run_id}/stream", headers)).status,
                (await post(served, f"/runs/{run_id}/verdicts", verdict, headers)).status,
                (await post(served, f"/runs/{run_id}/cancel", {}, headers)).status,
                (await post(served, "/runs", {"message": "Hi", "after": run_id}, headers)).status,
                (await post(served, "/runs", {"resume": run_id}, headers)).status,
            }

        assert await try_all(bob) == {404}
        assert await try_all({}) == {401}
        assert (await get(served, f"/runs/{run_id}", ann)).json["running"]
        assert (await post(served, f"/runs/{run_id}/verdicts", verdict, ann)).status == 200
    assert await try_all(bob) == {404}
    assert [run.user for run in agent.asked] == ["ann"]
    assert deletes.deleted == ["a"]


async def test_a_run_that_is_not_written_down_cannot_be_watched_again() -> None:
    served = app(Agent(["Ho"]))
    asked = await post(served, "/runs", {"message": "Hi"})
    assert (await get(served, f"/runs/{asked.headers['x-run-id']}/stream")).status == 409


# What is hidden


async def test_what_is_redacted_leaves_nowhere() -> None:
    deletes = Deletes()
    served = app(
        Agent([call("delete", {"path": "secret"})], ["Done"], tools=(deletes.tool,)),
        redact=lambda tool, value: "***",
    )
    async with posting(served, "/runs", {"message": "Hi"}) as asked:
        await asked.until("approval-request")
        run_id = await run_id_of(asked)
        status = await get(served, f"/runs/{run_id}")
        assert status.json["waiting"][0]["args"] == "***"
        body = {"executionId": find(asked, "approval-request")["executionId"], "allow": True}
        await post(served, f"/runs/{run_id}/verdicts", body)
    assert deletes.deleted == ["secret"]
    assert "secret" not in asked.text


async def test_runs_do_not_pile_up() -> None:
    served = app(Agent(["Ho"]), max_ended=2)
    ids = [(await post(served, "/runs", {"message": "Hi"})).headers["x-run-id"] for _ in range(3)]
    assert [(await get(served, f"/runs/{run_id}")).status for run_id in ids] == [404, 200, 200]


async def test_a_client_that_leaves_at_once_has_no_run_left() -> None:
    served = app(Agent(["Ho"]), max_runs=1)
    for _ in range(3):
        async with posting(served, "/runs", {"message": "Hi"}) as asked:
            asked.leave()
            await anyio.lowlevel.checkpoint()
    assert (await post(served, "/runs", {"message": "Hi"})).status == 200
