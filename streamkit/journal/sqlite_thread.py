"""A thread that does jobs with a database, and tasks that wait for them.

The thread is a daemon of ours, begun with the first job; it keeps neither the process nor the store alive.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

from .sqlite_database import Database
from .sqlite_forks import Guarded

J = TypeVar("J", bound="Job[Any]")
R = TypeVar("R")

logger = logging.getLogger("streamkit")


class Job(Generic[R]):
    """What a task wants from a thread. Made in the task; a thread begins it, and says how it ended.

    A task that is cancelled takes back a job that was not begun.
    """

    kept_to_the_end = False
    """Whether a task that is cancelled stays until a job that was begun is done."""

    def __init__(self) -> None:
        self._claim = threading.Lock()  # whoever gets it first has the job: the thread, or a task that leaves
        self._begun = False
        self._done = anyio.Event()
        self._loop: Any = anyio.lowlevel.current_token().native_token
        self._results: list[R] = []
        self._error: Exception | None = None
        self._ended = False

    # in the task

    async def outcome(self) -> R:
        """What the thread has made of the job."""
        try:
            await self._done.wait()
        except BaseException:
            if not self._claim.acquire(blocking=False) and self.kept_to_the_end:
                with anyio.CancelScope(shield=True):
                    await self._done.wait()
            raise
        if self._error is None:
            return self._results.pop()
        try:
            raise self._error
        finally:
            self._error = None  # else the error, its traceback and this frame hold each other

    # in the thread

    def begin(self) -> bool:
        """Whether the job is still to be done; from now on nobody takes it back."""
        self._begun = self._begun or self._claim.acquire(blocking=False)
        return self._begun

    def succeed(self, result: R) -> None:
        """The job is done, unless it has ended already."""
        if not self._ended:
            self._results.append(result)
            self._end()

    def fail(self, error: Exception) -> None:
        """The job has failed, unless it has ended already."""
        if not self._ended:
            self._error = error
            self._end()

    def _end(self) -> None:
        """Wake the task. (`anyio.from_thread` would wait until that has been done, and hold up all other jobs.)"""
        self._ended = True
        soon = getattr(self._loop, "run_sync_soon", None) or self._loop.call_soon_threadsafe  # trio's, asyncio's
        try:
            soon(self._done.set)
        except RuntimeError:
            logger.debug("a job of a journal was done after its event loop had ended")


class Worker(Guarded, Generic[J]):
    """A thread with a database, which does the jobs that it is given: see `serve`.

    It begins with the first job, and again with the first one after it was closed.
    """

    order = 1

    def __init__(self, name: str, open_database: Callable[[], Database]) -> None:
        super().__init__()
        self._name = name
        self._open_database = open_database
        self._jobs: SimpleQueue[J | _End] | None = None  # of the thread that runs

    def put(self, job: J) -> None:
        with self.lock:
            if self._jobs is None:
                self._jobs = SimpleQueue()
                threading.Thread(target=self._run, args=(self._jobs,), name=self._name, daemon=True).start()
            self._jobs.put(job)

    async def aclose(self) -> None:
        """End the thread once it has done all its jobs, and wait for it."""
        with self.lock:
            jobs, self._jobs = self._jobs, None
        if jobs is not None:
            waited = Job[None]()
            jobs.put(_End(waited))
            await waited.outcome()

    def abandon(self) -> None:
        """End the thread once it has done all its jobs. May be called anywhere, also by the garbage collector."""
        if (jobs := self._jobs) is not None:
            jobs.put(_End())

    def after_fork_in_child(self) -> None:
        self._jobs = None

    # in the thread

    def serve(self, database: Database, jobs: Sequence[J]) -> float | None:
        """Do jobs. Called again when there are more of them, or after so many seconds without any."""
        raise NotImplementedError

    def _run(self, jobs: SimpleQueue[J | _End]) -> None:
        database = self._open_database()
        end, patience = None, None
        while end is None:
            end, patience = self._serve_what_waits(database, jobs, patience)
        database.close()
        if end.waited is not None:
            end.waited.succeed(None)

    def _serve_what_waits(
        self, database: Database, jobs: SimpleQueue[J | _End], patience: float | None
    ) -> tuple[_End | None, float | None]:
        waiting, end = _take_all(jobs, patience)
        if waiting or end is None:
            try:
                patience = self.serve(database, waiting)
            except Exception as error:  # nobody waits for ever because of a mistake of ours
                for job in waiting:
                    job.fail(copy_of(error))
        return end, patience


def _take_all(jobs: SimpleQueue[J | _End], patience: float | None) -> tuple[list[J], _End | None]:
    """What is in the queue, or comes into it within so many seconds, as far as the end."""
    taken: list[J] = []
    with suppress(Empty):
        job = jobs.get(timeout=patience)
        while not isinstance(job, _End):
            taken.append(job)
            job = jobs.get_nowait()
        return taken, job
    return taken, None


class _End:
    """The last job of a thread."""

    def __init__(self, waited: Job[None] | None = None) -> None:
        self.waited = waited


def copy_of(error: Exception) -> Exception:
    """The same error for one more task: raised in two, it would tell of both places at once."""
    copy = type(error)(*error.args).with_traceback(error.__traceback__)
    copy.__cause__ = error.__cause__
    return copy
