"""The runs that go on, counted."""

from contextlib import ExitStack

import pytest
from starlette.exceptions import HTTPException

from streamkit.execution.desk import ApprovalDesk
from streamkit.web.ended import EndedRuns
from streamkit.web.runs import LiveRuns, Run


class Name(bytes):
    """Counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return bytes(self) == other

    __hash__ = bytes.__hash__


def run(run_id: str, owner: bytes) -> Run:
    made = Run(run_id, None, desk=ApprovalDesk())
    made.owner = owner
    return made


def live(*, max_user_runs: int) -> LiveRuns:
    ended = EndedRuns(limit_bytes=10**6, limit_count=10, limit_seconds=10)
    return LiveRuns(max_runs=10**6, max_user_runs=max_user_runs, ended=ended)


def test_a_run_begins_and_ends_without_a_look_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Name, "compared", 0)
    runs = live(max_user_runs=1)
    with ExitStack() as entered:
        for number in range(200):
            entered.enter_context(runs.entered(run(f"run-{number}", Name(b"user-%d" % number))))
    assert Name.compared <= 200


def test_who_has_too_many_runs_may_begin_one_when_one_has_ended() -> None:
    runs = live(max_user_runs=2)
    with runs.entered(run("a", b"ann")):
        with runs.entered(run("b", b"ann")), pytest.raises(HTTPException, match="too many"):
            runs.entered(run("c", b"ann")).__enter__()
        with runs.entered(run("d", b"ann")), runs.entered(run("e", b"bob")):
            assert [*runs.by_id] == ["a", "d", "e"]
    assert not runs.by_id
