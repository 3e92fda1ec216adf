import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.codec.strict_json import strict_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_a_value_comes_back_as_it_was_written(value: object) -> None:
    assert strict_json(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "[-1e999]", "9" * 5000])
def test_what_is_no_number_of_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|range|digits"):
        strict_json(text)


@pytest.mark.parametrize("text", ["", "{", "01", "1 2", "'a'"])
def test_where_text_is_no_json_is_known(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        strict_json(text)
