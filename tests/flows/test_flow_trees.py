"""Random trees of flows, against a plain interpreter: the same events in an order that may be, the same value or error.

Each kind of node says twice what it is: as a flow, and as the outcome that is expected of it. Where the nodes of a tree
stand is what its events, values and errors are called, so all of them are different.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.errors import NotFinished
from streamkit.flows.flow import Flow, Sink
from streamkit.testing.leftovers import nothing_left

from ..attacks import Boom, Own, in_ticks

Path = tuple[int, ...]
Event = tuple[Path, int, tuple[Path, ...]]  # where it was sent, which of those sent there, which maps it went through
Through = Callable[[Event], Event | None]  # all functions on its way down: None if a filter drops it


# What is expected


@dataclass(frozen=True)
class Together:
    """Events of tasks that ran side by side, each task's in order. cut: some of them may be missing."""

    traces: tuple[Trace, ...]
    cut: bool


Trace = tuple["Event | Together", ...]


@dataclass(frozen=True)
class Outcome:
    trace: Trace
    value: object = None
    errors: frozenset[Path] = frozenset()
    """Empty, or where the error comes from; tasks side by side may fail together."""


def all_events(trace: Trace) -> Iterator[Event]:
    for item in trace:
        if isinstance(item, Together):
            for part in item.traces:
                yield from all_events(part)
        else:
            yield item


def is_possible(trace: Trace, seen: Sequence[Event], cut: bool = False) -> bool:
    """Whether the events could come in this order. cut: some of the trace may be missing."""
    rest = list(seen)
    for item in trace:
        mine = set(all_events((item,)))
        length = next((index for index, event in enumerate(rest) if event not in mine), len(rest))
        here, rest = rest[:length], rest[length:]
        if isinstance(item, Together):
            for part in item.traces:
                own = set(all_events(part))
                if not is_possible(part, [event for event in here if event in own], cut or item.cut):
                    return False
        elif len(here) != 1 and not (cut and not here):
            return False
    return not rest


# The nodes


class Node:
    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        raise NotImplementedError

    def expect(self, path: Path, through: Through) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True)
class Send(Node):
    count: int
    how: str

    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        async def run(out: Sink[Event]) -> object:
            if self.how == "from a generator":
                async with aclosing(own.numbers(self.count)) as numbers:
                    async for number in numbers:
                        await out.send((path, number, ()))
                return path
            with own.here(), anyio.CancelScope(shield=self.how == "under a shield"), out.branch() as mine:
                for number in range(self.count):
                    if self.how == "suspending":
                        await anyio.lowlevel.checkpoint()
                    await mine.send((path, number, ()))
            return path

        return Flow(run)

    def expect(self, path: Path, through: Through) -> Outcome:
        return emit(((path, number, ()) for number in range(self.count)), through, path)


def emit(events: Iterator[Event], through: Through, value: object) -> Outcome:
    trace: list[Event | Together] = []
    for event in events:
        try:
            arrived = through(event)
        except Boom as boom:
            return Outcome(tuple(trace), errors=frozenset([boom.args[0]]))
        if arrived is not None:
            trace.append(arrived)
    return Outcome(tuple(trace), value)


@dataclass(frozen=True)
class Fail(Node):
    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        async def run(out: Sink[Event]) -> object:
            raise Boom(path)

        return Flow(run)

    def expect(self, path: Path, through: Through) -> Outcome:
        return Outcome((), errors=frozenset([path]))


@dataclass(frozen=True)
class Changed(Node):
    """map, filter and tap; with `breaks_at` a map that fails at some events."""

    inner: Node
    how: str
    breaks_at: int

    def function(self, path: Path) -> Callable[[Event], Any]:
        def change(event: Event) -> Any:
            where, number, maps = event
            if self.how == "filter":
                return (number + len(where)) % 3 != 0
            if number == self.breaks_at:
                raise Boom(path)
            return where, number, (*maps, path)

        return change

    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        changed: Flow[Event, object] = getattr(self.inner.flow((*path, 0), own), self.how)(self.function(path))
        return changed

    def expect(self, path: Path, through: Through) -> Outcome:
        change = self.function(path)

        def changed(event: Event) -> Event | None:
            if self.how == "map":
                return through(change(event))
            return through(event) if self.how == "tap" or change(event) else None

        return self.inner.expect((*path, 0), changed)


@dataclass(frozen=True)
class Opened(Node):
    """Consumed by other work, which passes the events on; with `limit` it leaves after so many."""

    inner: Node
    limit: int | None = None

    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        async def run(out: Sink[Event]) -> object:
            left = self.limit
            with own.here():
                async with self.inner.flow((*path, 0), own).open() as events:
                    async for event in events:
                        if left == 0:
                            return "left"
                        left = None if left is None else left - 1
                        await out.send(event)
            return events.value

        return Flow(run)

    def expect(self, path: Path, through: Through) -> Outcome:
        inner = self.inner.expect((*path, 0), lambda event: event)
        if self.limit is not None and len(inner.trace) > self.limit:
            inner = Outcome(inner.trace[: self.limit], "left")
        trace: list[Event | Together] = []
        for item in inner.trace:
            parts = [emit(all_events(part), through, None) for part in getattr(item, "traces", [(item,)])]
            errors = frozenset[Path]().union(*(part.errors for part in parts))
            if isinstance(item, Together):
                trace.append(Together(tuple(pass_on(part, through) for part in item.traces), item.cut or bool(errors)))
            else:
                trace.extend(parts[0].trace)
            if errors:
                return Outcome(tuple(trace), errors=errors)
        return Outcome(tuple(trace), inner.value, inner.errors)


def pass_on(trace: Trace, through: Through) -> Trace:
    """Up to the first event that cannot pass."""
    passed: list[Event | Together] = []
    for item in trace:
        if isinstance(item, Together):
            passed.append(Together(tuple(pass_on(part, through) for part in item.traces), item.cut))
        else:
            passed.extend(emit(iter([item]), through, None).trace)
    return tuple(passed)


@dataclass(frozen=True)
class Unseen(Node):
    """Run without its events: awaited, or cut off by a scope of its own."""

    inner: Node
    cut: bool

    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        async def run(out: Sink[Event]) -> object:
            if not self.cut:
                return await self.inner.flow((*path, 0), own)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await self.inner.flow((*path, 0), own)
            return "cut"

        return Flow(run)

    def expect(self, path: Path, through: Through) -> Outcome:
        inner = self.inner.expect((*path, 0), lambda event: event)
        return Outcome((), "cut" if self.cut else inner.value, inner.errors)


@dataclass(frozen=True)
class Guarded(Node):
    """Errors caught around it, or events sent in its cleanup, under a shield."""

    inner: Node
    how: str

    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        async def run(out: Sink[Event]) -> object:
            try:
                return await out.forward(self.inner.flow((*path, 0), own))
            except Exception:
                if self.how == "except":
                    return "caught"
                raise
            finally:
                if self.how == "finally":
                    with anyio.CancelScope(shield=True):
                        await out.forward(Send(20, "").flow((*path, 1), own))

        return Flow(run)

    def expect(self, path: Path, through: Through) -> Outcome:
        inner = self.inner.expect((*path, 0), through)
        if self.how == "except":
            return Outcome(inner.trace, "caught") if inner.errors else inner
        last = Send(20, "").expect((*path, 1), through)
        return Outcome(inner.trace + last.trace, inner.value, last.errors or inner.errors)


@dataclass(frozen=True)
class Chained(Node):
    parts: tuple[Node, ...]

    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        flows = [part.flow((*path, place), own) for place, part in enumerate(self.parts)]
        chained: Flow[Event, tuple[object, ...]] = flows[0].then(lambda value: (value,))
        for following in flows[1:]:
            chained = chained.chain(functools.partial(add_value, following))
        return chained

    def expect(self, path: Path, through: Through) -> Outcome:
        trace: Trace = ()
        values: tuple[object, ...] = ()
        for place, part in enumerate(self.parts):
            outcome = part.expect((*path, place), through)
            trace += outcome.trace
            if outcome.errors:
                return Outcome(trace, errors=outcome.errors)
            values += (outcome.value,)
        return Outcome(trace, values)


def add_value(following: Flow[Event, object], values: tuple[object, ...]) -> Flow[Event, tuple[object, ...]]:
    return following.then(lambda value: (*values, value))


@dataclass(frozen=True)
class Branched(Node):
    parts: tuple[Node, ...]

    def flow(self, path: Path, own: Own) -> Flow[Event, object]:
        async def run(out: Sink[Event]) -> object:
            values: dict[int, object] = {}

            async def branch(place: int, part: Node) -> None:
                with own.here(), out.branch() as mine:
                    values[place] = await mine.forward(part.flow((*path, place), own))

            async with anyio.create_task_group() as group:
                for place, part in enumerate(self.parts):
                    group.start_soon(branch, place, part)
            return tuple(values[place] for place in range(len(self.parts)))

        return Flow(run)

    def expect(self, path: Path, through: Through) -> Outcome:
        outcomes = [part.expect((*path, place), through) for place, part in enumerate(self.parts)]
        errors = frozenset[Path]().union(*(outcome.errors for outcome in outcomes))
        if errors:  # one that is caught inside may leave after all, in a group with the cancellation of its task
            errors |= places(self, path) | {path[:length] for length in range(len(path))}
        together = Together(tuple(outcome.trace for outcome in outcomes), cut=bool(errors))
        return Outcome((together,), tuple(outcome.value for outcome in outcomes), errors)


# Trees

sends = st.builds(
    Send,
    st.sampled_from([0, 1, 3, 20, 70]),
    st.sampled_from(["ready", "suspending", "under a shield", "from a generator"]),
)


def lists_of(trees: st.SearchStrategy[Node]) -> st.SearchStrategy[tuple[Node, ...]]:
    return st.lists(trees, min_size=1, max_size=3).map(tuple)


def grow(trees: st.SearchStrategy[Node], breaks_at: Sequence[int]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(Changed, trees, st.sampled_from(["map", "filter", "tap"]), st.sampled_from(breaks_at)),
        st.builds(Guarded, trees, st.sampled_from(["except", "finally"])),
        st.builds(Opened, trees),
        st.builds(Chained, lists_of(trees)),
    )


def branch(trees: st.SearchStrategy[Node], breaks_at: Sequence[int]) -> st.SearchStrategy[Node]:
    return grow(trees, breaks_at) | st.builds(Branched, lists_of(trees)) | st.builds(Unseen, trees, st.just(False))


one_after_another: st.SearchStrategy[Node] = st.recursive(sends, lambda trees: grow(trees, [-1]), max_leaves=3)
calm: st.SearchStrategy[Node] = st.recursive(sends, lambda trees: branch(trees, [-1]), max_leaves=4)
# What is cut off at a moment that depends on the scheduler holds no errors, and what is left early also no branches and
# no cleanup that sends (cut off before that, it may come): or else the plain interpreter would not know what to expect.
leaves: st.SearchStrategy[Node] = st.one_of(
    sends,
    st.builds(Fail),
    st.builds(Opened, one_after_another.filter(lambda tree: "finally" not in repr(tree)), st.sampled_from([0, 1, 17])),
    st.builds(Unseen, calm, st.just(True)),
)
trees: st.SearchStrategy[Node] = st.recursive(leaves, lambda trees: branch(trees, [-1, -1, 0, 2, 18]), max_leaves=8)


Raised = list[Boom | BaseExceptionGroup[Any]]


def error_paths(errors: Sequence[BaseException]) -> set[Path]:
    paths = set()
    for error in errors:
        if isinstance(error, BaseExceptionGroup):
            paths |= error_paths(error.exceptions)
        else:
            assert isinstance(error, Boom)
            paths.add(error.args[0])
    return paths


@pytest.fixture(autouse=True)
def _silent_taps() -> Iterator[None]:
    """Taps that raise tell the log, at length."""
    logging.getLogger("streamkit").disabled = True
    yield
    logging.getLogger("streamkit").disabled = False


@given(tree=trees)
@settings(max_examples=150)
def test_an_opened_tree_gives_the_events_and_then_the_value_or_the_error(anyio_backend: str, tree: Node) -> None:
    async def main() -> None:
        own, seen, raised = Own(), [], Raised()
        async with nothing_left():
            try:
                async with tree.flow((), own).open() as events:
                    async for event in events:
                        seen.append(event)
                assert events.value == expected.value
                assert not expected.errors
            except (Boom, BaseExceptionGroup) as error:
                raised.append(error)
        assert error_paths(raised) <= expected.errors
        assert all(isinstance(error, Boom) or len(error.exceptions) > 1 for error in raised)
        assert is_possible(expected.trace, seen)
        assert own.all_closed()

    expected = tree.expect((), lambda event: event)
    in_ticks(anyio_backend, main)


@given(tree=trees)
@settings(max_examples=75)
def test_an_awaited_tree_gives_the_same_value_or_error(anyio_backend: str, tree: Node) -> None:
    async def main() -> None:
        own, raised = Own(), Raised()
        seen: list[Event] = []
        async with nothing_left():
            try:
                assert await tree.flow((), own).tap(seen.append) == expected.value
                assert not expected.errors
            except (Boom, BaseExceptionGroup) as error:
                raised.append(error)
        assert error_paths(raised) <= expected.errors
        assert is_possible(expected.trace, seen)
        assert own.all_closed()

    expected = tree.expect((), lambda event: event)
    in_ticks(anyio_backend, main)


@given(tree=trees, stop=st.integers(0, 30), how=st.sampled_from(["break", "raise"]))
@settings(max_examples=100)
def test_a_tree_left_at_any_event_gave_a_beginning_and_leaves_nothing(
    anyio_backend: str, tree: Node, stop: int, how: str
) -> None:
    async def main() -> None:
        own, seen, raised, mine, own_error = Own(), [], Raised(), KeyError(), None
        async with nothing_left():
            try:
                async with tree.flow((), own).open() as events:
                    async for event in events:
                        seen.append(event)
                        if len(seen) > stop:
                            if how == "raise":
                                raise mine
                            break
                if len(seen) > stop:
                    with pytest.raises(NotFinished):
                        _ = events.value
                else:
                    assert events.value == expected.value
            except KeyError as error:
                own_error = error
            except (Boom, BaseExceptionGroup) as error:
                raised.append(error)
        assert own_error is (mine if how == "raise" and len(seen) > stop else None)
        assert error_paths(raised) <= places(tree, ())
        assert is_possible(expected.trace, seen, cut=True)
        assert own.all_closed()

    expected = tree.expect((), lambda event: event)
    in_ticks(anyio_backend, main)


@given(tree=trees, tick=st.integers(0, 60), opened=st.booleans())
@settings(max_examples=150)
def test_a_tree_cancelled_at_any_tick_is_cancelled_or_was_through(
    anyio_backend: str, tree: Node, tick: int, opened: bool
) -> None:
    async def main() -> None:
        own, seen, raised, through = Own(), [], Raised(), False
        async with nothing_left():
            try:
                with anyio.move_on_after(tick) as scope:
                    if opened:
                        async with tree.flow((), own).open() as events:
                            async for event in events:
                                await anyio.lowlevel.checkpoint()
                                seen.append(event)
                        value = events.value
                    else:
                        value = await tree.flow((), own)
                    through = True
                    assert value == expected.value
                assert scope.cancelled_caught is not through
            except (Boom, BaseExceptionGroup) as error:
                raised.append(error)
        assert error_paths(raised) <= places(tree, ())
        assert is_possible(expected.trace, seen, cut=True)
        assert own.all_closed()

    expected = tree.expect((), lambda event: event)
    in_ticks(anyio_backend, main)


def places(tree: Node, path: Path) -> set[Path]:
    """Where errors may come from, in whatever order things happen."""
    parts = getattr(tree, "parts", None) or ([tree.inner] if hasattr(tree, "inner") else [])
    return {path}.union(*(places(part, (*path, place)) for place, part in enumerate(parts)))
