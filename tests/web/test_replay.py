"""Runs that are written down: watched by several, again and behind a frame; gone on with after a crash."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.errors import FlowError, JournalError, ProviderError
from streamkit.flows.flow import Flow
from streamkit.items import user
from streamkit.journal.entry import Entry, RunTaken, Shown, StateSaved
from streamkit.journal.journals import Journal
from streamkit.journal.memory import MemoryStore, memory_journal
from streamkit.journal.sqlite import sqlite_journal
from streamkit.testing.leftovers import nothing_left
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import RunEvent
from streamkit.tools.decorators import streaming_tool
from streamkit.tools.reducers import count
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import TextDelta, TurnStarted
from streamkit.web import RunRequest, WebApp, app
from streamkit.web.owners import new_run_id

from ..attacks import Boom, Wild, in_ticks
from .asgi import Exchange, asking
from .serving import Agent, Deletes, Hold, find, get, of_header, post, posting, run_id_of, text_of, types


@asynccontextmanager
async def serving(agent: Any, journal: Journal | None = None, **options: Any) -> AsyncIterator[WebApp]:
    """An app whose runs outlive their clients."""
    served = app(agent, journal=journal or memory_journal(), **{"resumable": True, **options})
    async with nothing_left(), served.lifespan():
        yield served


def holding() -> tuple[Hold, Agent]:
    hold = Hold()
    return hold, Agent(["One ", "two. ", call("hold", {"name": "a"})], ["Done."], tools=(hold.tool,))


# Watching


async def test_a_run_that_is_written_down_is_answered_with_like_any_other() -> None:
    hold, agent = holding()
    hold.go_on.set()
    async with serving(agent) as served:
        asked = await post(served, "/runs", {"message": "Hi"})
    plain = await post(app(agent), "/runs", {"message": "Hi"})
    assert types(asked) == types(plain)
    assert asked.is_whole
    assert [frame["#"] for frame in asked.frames] == list(range(1, len(asked.frames) + 1))


async def test_a_run_goes_on_without_its_client_and_is_picked_up_without_gap_or_repeat() -> None:
    hold, agent = holding()
    async with serving(agent) as served:
        async with posting(served, "/runs", {"message": "Hi"}) as asked:
            await asked.until("tool-progress")
            run_id = await run_id_of(asked)
            asked.leave()
        assert not hold.ended.is_set()
        assert (await get(served, f"/runs/{run_id}")).json["running"]
        last = asked.frames[-1]["#"]
        async with asking(served, "GET", f"/runs/{run_id}/stream", headers={"last-event-id": str(last)}) as again:
            await anyio.wait_all_tasks_blocked()
            hold.go_on.set()
        whole = await get(served, f"/runs/{run_id}/stream")
    assert asked.frames + again.frames == whole.frames
    assert whole.frames[-1]["type"] == "finish"
    assert text_of(whole) == "One two. Done."
    assert again.headers["x-run-id"] == run_id


async def test_a_stream_may_go_on_behind_any_frame() -> None:
    hold, agent = holding()
    hold.go_on.set()
    async with serving(agent) as served:
        whole = await post(served, "/runs", {"message": "Hi"})
        target = f"/runs/{whole.headers['x-run-id']}/stream"
        for number in range(len(whole.frames)):
            assert (await get(served, f"{target}?after={number}")).frames == whole.frames[number:]
        for number in (len(whole.frames), len(whole.frames) + 10):
            over = await get(served, target, {"last-event-id": str(number)})
            assert (over.status, over.body) == (204, b"")
            assert over.headers["cache-control"] == "no-store"
        for nonsense in ("-1", "1.5", "x", "9" * 30):
            assert (await get(served, f"{target}?after={nonsense}")).status == 400


async def test_several_watch_at_once_and_a_slow_one_holds_nobody_up() -> None:
    hold, agent = holding()
    async with serving(agent) as served, posting(served, "/runs", {"message": "Hi"}) as asked:
        run_id = await run_id_of(asked)
        target = f"/runs/{run_id}/stream"
        async with asking(served, "GET", target) as slow:
            slow.pause()
            async with asking(served, "GET", target) as quick:
                await hold.began.wait()
                hold.go_on.set()
            slow.go_on()
    assert quick.frames == slow.frames == asked.frames


class Appends(MemoryStore):
    """Counts how often something is written down."""

    count = 0

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        self.count += 1
        return await super().append(run_id, entries, durable=durable)


async def test_events_that_come_close_together_are_written_down_together() -> None:
    @streaming_tool(reduce=count())
    async def steps() -> AsyncIterator[int]:
        """Suspend at each step."""
        for number in range(300):
            yield number
            await anyio.lowlevel.checkpoint()

    store = Appends()
    async with serving(Agent([call("steps")], ["Done."], tools=(steps,)), Journal(store)) as served:
        await post(served, "/runs", {"message": "Hi"})
    assert store.count < 180


async def test_a_head_request_of_a_stream_has_no_body() -> None:
    async with serving(Agent(["Ho"])) as served:
        asked = await post(served, "/runs", {"message": "Hi"})
        exchange = Exchange()
        async with asking(served, "HEAD", f"/runs/{asked.headers['x-run-id']}/stream", exchange=exchange):
            """Nothing else."""
    assert (exchange.status, exchange.body) == (200, b"")


async def test_what_a_journal_hides_is_hidden_from_those_who_watch() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "secret"}, split=3)], ["Done"], tools=(deletes.tool,))
    async with (
        serving(agent, memory_journal(redact=lambda tool, value: "***")) as served,
        posting(served, "/runs", {"message": "Hi"}) as asked,
    ):
        await asked.until("approval-request")
        body = {"executionId": find(asked, "approval-request")["executionId"], "allow": True}
        assert (await post(served, f"/runs/{await run_id_of(asked)}/verdicts", body)).status == 200
    assert deletes.deleted == ["secret"]
    assert "secret" not in asked.text


# How runs end


async def test_a_run_whose_client_leaves_ends_where_it_is_not_resumable() -> None:
    hold, agent = holding()
    async with serving(agent, resumable=False) as served:
        async with posting(served, "/runs", {"message": "Hi"}) as asked:
            await hold.began.wait()
            asked.leave()
        await hold.ended.wait()
        run_id = asked.headers["x-run-id"]
        again = await get(served, f"/runs/{run_id}/stream")
        assert again.frames[-1]["type"] == "stopped"


async def test_a_run_that_is_cancelled_ends_for_all_who_watch() -> None:
    hold, agent = holding()
    journal = memory_journal()
    async with serving(agent, journal) as served:
        async with posting(served, "/runs", {"message": "Hi"}) as asked:
            run_id = await run_id_of(asked)
            async with asking(served, "GET", f"/runs/{run_id}/stream") as other:
                await hold.began.wait()
                assert (await post(served, f"/runs/{run_id}/cancel", {"reason": "enough"})).status == 200
        assert asked.frames == other.frames
        assert (asked.frames[-1]["type"], asked.frames[-1]["reason"]) == ("stopped", "enough")
    async with serving(agent, journal) as served:  # after a restart it is the same
        assert (await get(served, f"/runs/{run_id}/stream")).frames == asked.frames
        assert (await get(served, f"/runs/{run_id}")).json["ended"] == "stopped"
        assert (await post(served, "/runs", {"resume": run_id})).status == 409


async def test_an_error_ends_the_stream_now_and_after_a_restart_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = memory_journal()
    agent = Agent(["Half", ProviderError("no capacity", status=529)])
    async with serving(agent, journal) as served:
        asked = await post(served, "/runs", {"message": "Hi"})
        run_id = asked.headers["x-run-id"]
        assert [record.levelname for record in caplog.records] == ["ERROR"]
    async with serving(agent, journal) as served:
        again = await get(served, f"/runs/{run_id}/stream")
    assert asked.frames == again.frames
    assert asked.frames[-1]["code"] == "provider_error"
    assert asked.frames[-1]["message"] == "no capacity"
    assert len(caplog.records) == 1


async def test_an_error_of_ours_is_told_to_nobody_after_a_restart_either(caplog: pytest.LogCaptureFixture) -> None:
    journal = memory_journal()
    agent = Agent([Boom("secret")])
    async with serving(agent, journal) as served:
        asked = await post(served, "/runs", {"message": "Hi"})
    async with serving(agent, journal) as served:
        again = await get(served, f"/runs/{asked.headers['x-run-id']}/stream")
    assert asked.frames == again.frames
    assert "secret" not in again.text


async def test_a_run_goes_on_after_one_of_before_a_restart() -> None:
    journal = memory_journal()
    agent = Agent(["Ho"])
    async with serving(agent, journal) as served:
        asked = await post(served, "/runs", {"message": "Hi"})
    async with serving(agent, journal) as served:
        await post(served, "/runs", {"message": "And now?", "after": asked.headers["x-run-id"]})
    assert [getattr(item, "text", "") for item in agent.asked[1].conversation.history] == ["Hi", "Ho", "And now?"]


async def test_a_store_that_fails_ends_the_streams_of_its_runs(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryStore):
        is_full = False

        async def append(self, *args: Any, **options: Any) -> int:
            if self.is_full:
                raise JournalError("the disk is full")
            return await super().append(*args, **options)

    hold, agent = holding()
    store = Full()
    async with serving(agent, Journal(store)) as served, posting(served, "/runs", {"message": "Hi"}) as asked:
        await asked.until("tool-progress")
        store.is_full = True
        hold.go_on.set()
    assert asked.is_whole
    assert "finish" not in types(asked)
    assert len(caplog.records) == 2  # that the run failed, and that its end could not be written


@pytest.mark.parametrize("wild", [Wild(), BaseExceptionGroup("several", [Boom(), Wild()])], ids=["one", "several"])
async def test_a_run_that_fails_wildly_takes_no_other_along(wild: BaseException) -> None:
    hold, agent = holding()
    agent.turns = (lambda request: [wild] if "wild" in str(request.history) else [call("hold")], ["Done."])
    async with serving(agent) as served, posting(served, "/runs", {"message": "Hi"}) as other:
        await hold.began.wait()
        asked = await post(served, "/runs", {"message": "Be wild"})
        assert find(asked, "error")["code"] == "internal_error"
        hold.go_on.set()
        assert find(await post(served, "/runs", {"message": "Hi"}), "finish")
    assert find(other, "finish")


# Going on after a crash


async def test_a_run_that_a_shutdown_cut_off_goes_on_and_its_frames_too() -> None:
    journal = memory_journal()
    hold, agent = holding()
    async with serving(agent, journal) as served, posting(served, "/runs", {"message": "Hi"}) as asked:
        await asked.until("tool-progress")
        run_id = await run_id_of(asked)
        asked.leave()
    assert hold.ended.is_set()
    seen = asked.frames

    hold, agent = holding()
    hold.go_on.set()
    agent.turns = (["Well."],)
    async with serving(agent, journal) as served:
        status = (await get(served, f"/runs/{run_id}")).json
        assert (status["running"], status["ended"], status["waiting"]) == (False, "interrupted", [])
        verdict = {"executionId": find(asked, "tool-start")["executionId"], "allow": False}
        assert (await post(served, f"/runs/{run_id}/verdicts", verdict)).status == 409  # nobody would hear of it
        known = await get(served, f"/runs/{run_id}/stream")
        assert known.is_whole
        assert known.frames[: len(seen)] == seen
        assert not {"finish", "error", "stopped"} & set(types(known))
        over = await get(served, f"/runs/{run_id}/stream", {"last-event-id": str(known.frames[-1]["#"])})
        assert over.status == 204

        rest = await post(served, "/runs", {"resume": run_id}, {"last-event-id": str(known.frames[-1]["#"])})
        whole = await get(served, f"/runs/{run_id}/stream")
        assert known.frames + rest.frames == whole.frames
        assert find(whole, "finish")["ended"] == "answer"
        assert [frame["#"] for frame in whole.frames] == list(range(1, len(whole.frames) + 1))
        assert (await post(served, "/runs", {"resume": run_id})).status == 409


async def test_many_may_look_at_a_run_whose_process_died_while_somebody_goes_on_with_it(tmp_path: Path) -> None:
    journal, run_id = sqlite_journal(tmp_path / "runs.db"), new_run_id(None)
    entries: list[Entry] = [RunTaken("process 1"), StateSaved(0, Conversation((user("Hi"),)))]
    await journal.store.append(run_id, entries, durable=True)
    async with serving(Agent(["Ho"]), journal) as served:
        told: list[Any] = []

        async def look() -> None:
            told.append((await get(served, f"/runs/{run_id}")).json["ended"])

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(look)
                tasks.start_soon(get, served, f"/runs/{run_id}/stream")  # it ends, or this test would not
        assert told == ["interrupted"] * 10
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(look)
            asked = await post(served, "/runs", {"resume": run_id})
        assert text_of(asked) == "Ho"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_ends_when_the_process_dies_that_drove_its_run(backend: str) -> None:
    async def main() -> None:
        journal, run_id = memory_journal(), new_run_id(None)
        begun: list[Entry] = [RunTaken("process 1"), StateSaved(0, Conversation((user("Hi"),)))]
        async with serving(Agent(["Ho"]), journal) as served, AsyncExitStack() as process:
            await process.enter_async_context(journal.store.hold(run_id))
            await journal.store.append(run_id, [*begun, Shown(TurnStarted("turn", "model"))], durable=True)
            async with asking(served, "GET", f"/runs/{run_id}/stream") as asked:
                await asked.until("turn-start")
                await anyio.sleep(1000)
                await journal.store.append(run_id, [Shown(TextDelta("Half a wo"))], durable=False)
                await process.aclose()  # which is killed: it writes nothing more
            assert asked.is_whole
            assert types(asked) == ["start", "turn-start", "text-start", "text-delta"]
            assert text_of(await post(served, "/runs", {"resume": run_id})).endswith("Ho")

    in_ticks(backend, main)


async def test_a_run_that_goes_on_is_not_resumed_a_second_time() -> None:
    hold, agent = holding()
    journal = memory_journal()
    async with serving(agent, journal) as served, serving(agent, journal) as other:
        async with posting(served, "/runs", {"message": "Hi"}) as asked:
            run_id = await run_id_of(asked)
            assert (await post(served, "/runs", {"resume": run_id})).status == 409
            assert (await post(other, "/runs", {"resume": run_id})).status == 409
            status = (await get(other, f"/runs/{run_id}")).json
            assert (status["running"], status["ended"]) == (True, None)
            for target, body in (("verdicts", {"executionId": "a", "allow": True}), ("cancel", {})):
                refused = await post(other, f"/runs/{run_id}/{target}", body)
                assert refused.status == 409
                assert "another process" in refused.json["error"]
            async with asking(other, "GET", f"/runs/{run_id}/stream") as elsewhere:
                hold.go_on.set()
        assert elsewhere.frames == asked.frames


async def test_a_run_that_another_process_goes_on_with_is_told_as_it_stands_there() -> None:
    journal = memory_journal()
    hold, agent = holding()
    async with serving(agent, journal) as served:
        async with served.lifespan(), posting(served, "/runs", {"message": "Hi"}) as asked:
            await hold.began.wait()
            run_id = await run_id_of(asked)
            asked.leave()
        assert (await get(served, f"/runs/{run_id}")).json["ended"] == "interrupted"
        agent.turns = (["Well."],)
        async with serving(agent, journal) as other:
            await post(other, "/runs", {"resume": run_id})
        assert (await get(served, f"/runs/{run_id}")).json["ended"] == "answer"


async def test_a_run_of_which_only_the_beginning_is_known_is_not_resumed() -> None:
    journal = memory_journal()
    run_id = new_run_id(None)
    with pytest.raises(Boom):
        async with journal.drive(run_id):
            raise Boom
    async with serving(Agent(), journal) as served:
        assert (await post(served, "/runs", {"resume": run_id})).status == 409


async def test_a_run_stays_its_users_after_a_restart() -> None:
    journal = memory_journal()
    agent = Agent(["Ho"])
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    async with serving(agent, journal, authenticate=of_header("x-user")) as served:
        run_id = (await post(served, "/runs", {"message": "Hi"}, ann)).headers["x-run-id"]
    async with serving(agent, journal, authenticate=of_header("x-user")) as served:
        assert (await get(served, f"/runs/{run_id}/stream", bob)).status == 404
        assert (await get(served, f"/runs/{run_id}/stream", ann)).status == 200
    async with serving(agent, journal) as served:
        assert (await get(served, f"/runs/{run_id}/stream")).status == 404


async def test_runs_that_others_drive_by_name_are_not_found() -> None:
    journal = memory_journal()
    async with journal.drive("run-1") as log:
        await converse(ScriptedModel(["Ho"]), Toolkit(), (user("Hi"),), journal=log)
    async with serving(Agent(), journal) as served:
        assert (await get(served, "/runs/run-1/stream")).status == 404


# A file


async def test_a_journal_in_a_file_serves_as_well(tmp_path: Path) -> None:
    journal = sqlite_journal(tmp_path / "runs.db")
    hold, agent = holding()
    async with serving(agent, journal) as served:
        async with posting(served, "/runs", {"message": "Hi"}) as asked:
            await asked.until("tool-progress")
            run_id = await run_id_of(asked)
            asked.leave()
        async with asking(served, "GET", f"/runs/{run_id}/stream", headers={"last-event-id": "3"}) as again:
            hold.go_on.set()
        whole = await get(served, f"/runs/{run_id}/stream")
    await journal.store.aclose()  # type: ignore[attr-defined]
    assert again.frames == whole.frames[3:]
    assert find(whole, "finish")["ended"] == "answer"


# Mistakes


def test_a_resumable_app_without_a_journal_says_so() -> None:
    with pytest.raises(ValueError, match="journal="):
        app(Agent(), resumable=True)


async def test_an_app_without_its_lifespan_says_what_to_do() -> None:
    with pytest.raises(FlowError, match="lifespan=app"):
        await post(app(Agent(), journal=memory_journal()), "/runs", {"message": "Hi"})


async def test_a_start_that_hands_the_journal_on_to_nobody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def start(run: RunRequest) -> Flow[RunEvent, Conversation]:
        return converse(ScriptedModel(["Ho"]), Toolkit(), run.conversation)

    async with serving(start) as served:
        asked = await post(served, "/runs", {"message": "Hi"})
    assert asked.is_whole
    assert "journal=run.journal" in str(caplog.records[0].exc_info)


async def test_what_start_raises_is_the_answer_and_harms_no_other_run() -> None:
    hold, agent = holding()

    def start(run: RunRequest) -> Flow[RunEvent, Conversation]:
        if run.data == "bad":
            raise Boom
        return agent(run)

    async with serving(start) as served, posting(served, "/runs", {"message": "Hi"}) as asked:
        await hold.began.wait()
        with pytest.raises(Boom):
            await post(served, "/runs", {"message": "Hi", "data": "bad"})
        hold.go_on.set()
    assert text_of(asked) == "One two. Done."


async def test_a_mounted_app_lives_in_the_lifespan_of_its_host() -> None:
    served = app(Agent(["Ho"]), journal=memory_journal(), resumable=True)
    host = Starlette(routes=[Mount("/agent", app=served)], lifespan=served.lifespan)
    async with host.router.lifespan_context(host):
        asked = await post(host, "/agent/runs", {"message": "Hi"})  # type: ignore[arg-type]
        assert text_of(asked) == "Ho"
        again = await get(host, f"/agent/runs/{asked.headers['x-run-id']}/stream")  # type: ignore[arg-type]
        assert again.frames == asked.frames


async def test_a_run_in_the_background_that_is_interrupted_interrupts_the_app() -> None:
    agent = Agent([BaseExceptionGroup("two", [Boom(), KeyboardInterrupt()])])  # a lone one would end the test runner
    served = app(agent, journal=memory_journal(), resumable=True)
    with pytest.raises(BaseExceptionGroup) as raised:
        async with served.lifespan():
            await post(served, "/runs", {"message": "Hi"})
    assert raised.value.subgroup(KeyboardInterrupt)
