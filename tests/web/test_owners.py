"""An id of a run says whose it is, and to nobody else anything."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.web.owners import new_run_id, owns

USERS = st.recursive(st.none() | st.text() | st.integers(-(2**53), 2**53), lambda inner: st.lists(inner, max_size=3))


@given(USERS, USERS)
def test_a_run_belongs_to_its_user_alone(user: Any, other: Any) -> None:
    run_id = new_run_id(user)
    assert re.fullmatch(r"[A-Za-z0-9_-]{38}", run_id)
    assert owns(user, run_id)
    assert owns(other, run_id) == (user == other)


@given(st.text())
def test_nothing_else_is_an_id_of_a_run(text: str) -> None:
    assert not owns(None, text)


@pytest.mark.parametrize("place", [0, 21, 22, 37])
def test_an_id_that_was_changed_is_none(place: int) -> None:
    run_id = new_run_id("ann")
    changed = run_id[:place] + ("a" if run_id[place] != "a" else "b") + run_id[place + 1 :]
    assert not owns("ann", changed)
    assert not owns("ann", run_id + "a")
    assert not owns("ann", run_id + "\n")


def test_ids_are_never_the_same() -> None:
    assert len({new_run_id(None) for _ in range(1000)}) == 1000


def test_the_order_of_what_names_a_user_does_not_matter() -> None:
    assert owns({"b": 2, "a": 1}, new_run_id({"a": 1, "b": 2}))


def test_a_user_who_would_be_another_each_time_says_so() -> None:
    with pytest.raises(TypeError, match="names a user"):
        new_run_id(object())
