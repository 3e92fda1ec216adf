"""Characters that a server cut in two."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.codec.surrogates import Halves, whole
from streamkit.items import user


@pytest.mark.parametrize(
    ("pieces", "mended"),
    [
        (["a\ud83d", "\ude00b"], ["a", "😀b"]),
        (["\ud83d", "", "\ude00"], ["", "", "😀"]),
        (["a\ud83db", "\ude00c"], ["a\ufffdb", "\ufffdc"]),
        (["\ud83d", "x"], ["", "\ufffdx"]),
        (["\ud83d", "\ud83d\ude00"], ["", "\ufffd😀"]),
        (["é😀"], ["é😀"]),
    ],
)
def test_halves_find_each_other(pieces: list[str], mended: list[str]) -> None:
    halves = Halves()
    assert [halves.mend("text", piece) for piece in pieces] == mended
    assert not halves.waiting


def test_each_text_has_its_own_halves() -> None:
    halves = Halves()
    assert halves.mend("text", "\ud83d") == ""
    assert halves.waiting
    assert halves.mend(0, "\ude00") == "\ufffd"
    assert halves.mend("text", "\ude00") == "😀"


@given(st.text(), st.data())
def test_text_cut_between_any_utf_16_units_comes_out_whole(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le")
    cuts = sorted(data.draw(st.sets(st.integers(0, len(units) // 2), max_size=5)))
    edges = [0, *(2 * cut for cut in cuts), len(units)]
    pieces = [units[start:end].decode("utf-16-le", "surrogatepass") for start, end in itertools.pairwise(edges)]
    halves = Halves()
    assert "".join(halves.mend("text", piece) for piece in pieces) == text


def test_a_value_is_whole_at_any_depth() -> None:
    assert whole({"\ud83d": ["\ud83d\ude00", {"a": ("x\ude00", user("\ude00"))}, 1, None]}) == {
        "\ufffd": ["😀", {"a": ("x\ufffd", user("\ufffd"))}, 1, None]
    }
