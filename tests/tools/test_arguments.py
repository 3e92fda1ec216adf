import decimal
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import InvalidInput
from streamkit.shapes.mismatch import ANSWER
from streamkit.shapes.shape import shape_of
from streamkit.tools.arguments import parse, read_text, read_tree


class Anything(msgspec.Struct, forbid_unknown_fields=True):
    value: Any


class Payment(msgspec.Struct, forbid_unknown_fields=True):
    to: str
    amount: int = 1
    shares: dict[int, float] = {}


ANYTHING = shape_of(Anything)
PAYMENT = shape_of(Payment)


def refused(text: str) -> str:
    with pytest.raises(InvalidInput) as raised:
        read_text(PAYMENT, text)
    return str(raised.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_json_is_read_as_a_typed_decode_reads_it(value: object) -> None:
    text = json.dumps({"value": value})
    assert read_text(ANYTHING, text) == msgspec.json.decode(text, type=Anything)


@given(st.integers())
def test_integers_are_exact_however_long(number: int) -> None:
    assert read_text(PAYMENT, f'{{"to": "", "amount": {number}}}').amount == number


def test_an_integer_may_be_written_with_a_point() -> None:
    amount = read_text(PAYMENT, '{"to": "", "amount": 3.0}').amount
    assert (amount, type(amount)) == (3, int)


def test_keys_that_are_numbers_are_read_as_such() -> None:
    assert read_text(PAYMENT, '{"to": "", "shares": {"1": 0.5}}').shares == {1: 0.5}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\ud800", "\ufffd"),
        (r"a\udc00b", "a\ufffdb"),
        (r"\ud83d\ude00", "😀"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        ("\ud800", "\ufffd"),
        ("\ud83d\ude00", "😀"),
    ],
    ids=ascii,
)
def test_halves_of_a_character_are_mended_or_replaced(written: str, read: str) -> None:
    assert read_text(PAYMENT, f'{{"to": "{written}"}}').to == read
    assert read_text(ANYTHING, f'{{"value": {{"{written}": ["{written}"]}}}}').value == {read: [read]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"to": "a', 'Unterminated string starting at (character 7, near \'{"to": "a\')'),
        ("", "Expecting value (character 0, near '')"),
        ("{'to': 1}", "Expecting property name enclosed in double quotes (character 1, near \"{'to': 1}\")"),
        ('{"to": "a"} and so on', 'Extra data (character 12, near \'{"to": "a"} and so on\')'),
        ('{"to": "NaN", "amount": NaN}', 'NaN is not a number (character 24, near \'": "NaN", "amount": NaN}\')'),
        ('{"amount": -Infinity}', "-Infinity is not a number (character 11, near '{\"amount\": -Infinity}')"),
    ],
)
def test_where_text_stops_being_json_is_told(text: str, message: str) -> None:
    assert refused(text) == f"the arguments are not valid JSON: {message}"


def test_only_the_place_of_the_mistake_is_shown() -> None:
    message = refused('{"to": "' + "x" * 100_000 + '", amount: 1}')
    assert "(character 100011, near " in message
    assert len(message) < 200


def test_a_mistake_before_a_string_without_end_is_found_in_a_moment() -> None:
    """Work that grew with the square of the string would take minutes."""
    text = '{"amount": 1e999, "to": "' + '\\"' * 100_000
    assert refused(text) == "a number in the arguments is out of range"


@pytest.mark.parametrize(("text", "came"), [("[1]", "[1]"), ('"a"', '"a"'), ("null", "null"), ("3", "3")])
def test_the_top_level_is_one_object(text: str, came: str) -> None:
    assert refused(text) == f"the arguments must be one JSON object, but are {came}"


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 5000], ids=["large", "small", "long"])
def test_a_number_that_no_machine_holds_is_refused(number: str) -> None:
    assert refused(f'{{"amount": {number}}}') == "a number in the arguments is out of range"


def test_endless_nesting_is_refused() -> None:
    assert refused('{"to":' + "[" * 100_000) == "the arguments are nested too deeply"


def test_what_does_not_fit_is_told_field_by_field() -> None:
    assert refused('{"amount": "a", "too": "a"}').split("\n") == [
        "the arguments do not fit:",
        "- to: required, but missing",
        '- amount: expected integer, but got "a"',
        "- too: unknown field",
        "received fields: amount, too",
    ]


@given(st.text())
def test_no_text_gives_anything_but_arguments_or_a_refusal(text: str) -> None:
    for each in (text, '{"to": ' + text, '{"to": "' + text + '"}'):
        try:
            read_text(PAYMENT, each)
        except InvalidInput as refusal:
            str(refusal).encode()  # the message itself can be sent


def test_a_tree_is_read_like_its_text() -> None:
    class Priced(msgspec.Struct):
        price: decimal.Decimal

    priced = shape_of(Priced)
    assert read_tree(priced, {"price": "1.10"}).price == decimal.Decimal("1.10")
    with pytest.raises(InvalidInput, match="price: required"):
        read_tree(priced, {})


def test_what_does_not_fit_is_mended_unless_one_must_not() -> None:
    assert read_text(PAYMENT, '{"to": "a", "amount": "3", "shares": null}') == Payment("a", 3)
    with pytest.raises(InvalidInput, match='amount: expected integer, but got "3"'):
        read_text(PAYMENT, '{"to": "a", "amount": "3"}', coerce=False)


def test_what_is_mended_is_checked_again() -> None:
    assert refused('{"to": "a", "amount": "3", "shares": "{\\"1\\": []}"}').split("\n") == [
        "the arguments do not fit:",
        "- shares.1: expected number, but got []",
        "received fields: to, amount, shares",
    ]


def test_an_answer_is_spoken_of_as_one() -> None:
    trees: list[tuple[Any, str]] = [
        ({}, "the answer does not fit"),
        ([], "the answer must be one JSON object, but is []"),
    ]
    for tree, says in trees:
        with pytest.raises(InvalidInput) as raised:
            read_tree(PAYMENT, tree, subject=ANSWER)
        assert says in str(raised.value)
    with pytest.raises(InvalidInput, match="the answer is not valid JSON"):
        parse("{", ANSWER)
