"""Whatever comes in between, a name is held by one at a time; and no run begins with a claim that was given back."""

from collections.abc import Callable, Sequence

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from streamkit.conversation import Conversation
from streamkit.errors import JournalError, RunStopped
from streamkit.execution.approval import Allow, allow_all
from streamkit.flows.flow import Flow, Sink
from streamkit.journal.entry import Entry, Numbered
from streamkit.journal.memory import MemoryStore
from streamkit.journal.store import PAGE
from streamkit.tool_events import RunEvent
from streamkit.web.claim_books import ClaimBook, RememberedClaims, StoredClaims
from streamkit.web.claims import Claims

from ..attacks import in_ticks


class Failing(MemoryStore):
    """A store that fails at some of its calls, counted from 0; then it keeps nothing."""

    def __init__(self, *fails: int) -> None:
        super().__init__()
        self._fails = fails
        self._calls = 0

    def _count(self) -> None:
        self._calls += 1
        if self._calls - 1 in self._fails:
            raise JournalError("the disk is full")

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        self._count()
        return await super().append(run_id, entries, durable=durable)

    async def read(self, run_id: str, after: int = 0, *, limit: int = PAGE, shown: bool = True) -> Sequence[Numbered]:
        self._count()
        return await super().read(run_id, after, limit=limit, shown=shown)


def remembered() -> list[ClaimBook]:
    return [RememberedClaims()] * 2


def stored() -> list[ClaimBook]:
    store = MemoryStore()
    return [StoredClaims(store), StoredClaims(store)]


BOOKS = [remembered, stored]
STEPS = st.lists(
    st.tuples(st.sampled_from(("take", "give back", "give back again")), st.integers(0, 1), st.integers(0, 1))
)


@pytest.mark.parametrize("books", BOOKS)
@settings(max_examples=60)
@given(steps=STEPS)
def test_a_name_is_held_from_its_claim_until_it_is_given_back(
    books: Callable[[], list[ClaimBook]], steps: list[tuple[str, int, int]]
) -> None:
    async def main() -> None:
        processes = books()
        held: dict[str, str] = {}
        given_back: dict[str, str] = {}
        for step, process, number in steps:
            book, name = processes[process], f"name-{number}"
            if step == "take":
                receipt = await book.take(name)
                assert (receipt is None) is (name in held)
                held[name] = receipt or held[name]
            elif step == "give back" and name in held:
                given_back[name] = held.pop(name)
                await book.give_back(name, given_back[name])
            elif step == "give back again" and name in given_back:
                await book.give_back(name, given_back[name])
            assert await processes[1 - process].is_taken(name) is (name in held)

    anyio.run(main)


@pytest.mark.parametrize("books", BOOKS)
async def test_of_many_who_come_at_once_one_gets_it(books: Callable[[], list[ClaimBook]]) -> None:
    processes = books()
    for _ in range(20):
        receipts: list[str] = []

        async def take(book: ClaimBook, receipts: list[str] = receipts) -> None:
            receipt = await book.take("name")
            if receipt is not None:
                receipts.append(receipt)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(take, processes[number % 2])
        assert len(receipts) == 1
        await processes[0].give_back("name", receipts[0])


@pytest.mark.parametrize("first", range(9))
@pytest.mark.parametrize("second", range(9))
async def test_a_store_that_fails_gives_a_name_to_nobody_twice(first: int, second: int) -> None:
    store = Failing(first, second)
    receipts: list[str] = []

    async def take() -> None:
        try:
            receipt = await StoredClaims(store).take("name")
        except JournalError:
            return
        if receipt is not None:
            receipts.append(receipt)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(take)
    assert len(receipts) <= 1
    if not receipts and first == second:  # or else what was claimed could not be given back
        await take()
        assert len(receipts) == 1


async def test_who_tries_again_and_again_leaves_nothing_in_the_store() -> None:
    store = MemoryStore()
    for _ in range(100):
        await StoredClaims(store).take("name")
    assert await store.last("name") == 1, "but the first claim"


async def test_the_oldest_go_first_when_there_are_too_many() -> None:
    book = RememberedClaims(limit_count=2)
    for name in "abc":
        assert await book.take(name)
    assert [await book.is_taken(name) for name in "abc"] == [False, True, True]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_is_too_old_is_forgotten(backend: str) -> None:
    async def main() -> None:
        book = RememberedClaims(limit_seconds=100)
        old = await book.take("a")
        await anyio.sleep(50)
        assert await book.take("b")
        assert await book.take("a") is None
        await anyio.sleep(60)
        assert [await book.is_taken(name) for name in "ab"] == [False, True]
        assert await book.take("a")
        assert old is not None
        await book.give_back("a", old)
        assert await book.is_taken("a"), "it is another's now"

    in_ticks(backend, main)


async def test_no_run_begins_behind_the_end_of_its_response() -> None:
    claims = Claims(None, outlives_response=False)
    claim = await claims.take("ann", "t", {"t.0": Allow()}, allow_all)
    run: Flow[RunEvent, Conversation] = claim.watch(Flow(_ends))
    await claim.end()
    with pytest.raises(RunStopped):
        await run
    again = await claims.take("ann", "t", {"t.0": Allow()}, allow_all)
    await again.watch(Flow(_ends))
    await again.end()


async def test_what_was_let_run_is_given_no_other_result() -> None:
    claims = Claims(None, outlives_response=False)
    by_hand = {"t.0": Allow(value="sent by hand")}
    for _ in range(2):
        await claims.take("ann", "t", by_hand, allow_all)  # nothing runs for it
    await claims.take("ann", "t", {"t.0": Allow()}, allow_all)
    with pytest.raises(HTTPException) as raised:
        await claims.take("ann", "t", by_hand, allow_all)
    assert raised.value.status_code == 409


async def test_of_requests_that_share_a_call_one_gets_all_of_its_own() -> None:
    claims = Claims(None, outlives_response=False)
    taken: list[frozenset[str]] = []

    async def take(*execution_ids: str) -> None:
        try:
            await claims.take("ann", "t", dict.fromkeys(execution_ids, Allow()), allow_all)
        except HTTPException:
            return
        taken.append(frozenset(execution_ids))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take, "a", "b")
        tasks.start_soon(take, "b", "a")
        tasks.start_soon(take, "b", "c")
    assert len(taken) == 1
    (left,) = frozenset("abc") - taken[0]
    await take(left)
    assert taken[1:] == [{left}], "what the refused ones had claimed is free again"


async def _ends(out: Sink[RunEvent]) -> Conversation:
    return Conversation()
