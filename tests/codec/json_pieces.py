"""How `PartialJson` is fed, and what its events and its text say in the end."""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamkit.codec.partial_json import FieldEvent, FieldOpened, FieldText, FieldValue, PartialJson
from streamkit.codec.surrogates import whole


def cut(text: str, places: Iterable[int]) -> list[str]:
    """The text in pieces, some of them empty."""
    ends = sorted(place % (len(text) + 1) for place in places)
    return [text[start:end] for start, end in itertools.pairwise([0, *ends, len(text)])]


def fed(pieces: Iterable[str], **limits: int) -> tuple[PartialJson, list[FieldEvent]]:
    """A parser that has read the pieces, and its events; those of one string that follow each other are joined."""
    parser = PartialJson(**limits)
    events: list[FieldEvent] = []
    for event in itertools.chain.from_iterable(parser.feed(piece) for piece in pieces):
        last = events[-1] if events else None
        if isinstance(event, FieldText) and isinstance(last, FieldText):
            assert last.path == event.path
            events[-1] = FieldText(event.path, last.text + event.text)
        else:
            events.append(event)
    return parser, events


def replay(events: Iterable[FieldEvent]) -> Any:
    """The value that events tell of."""
    top: dict[int, Any] = {}

    def put(path: Sequence[Any], value: Any) -> None:
        *outer, last = (0, *path)
        into: Any = top
        for step in outer:
            into = into[step]
        if isinstance(into, list):
            into[last:] = [value]
        else:
            into[last] = value

    texts: dict[Sequence[str | int], str] = {}
    for event in events:
        match event:
            case FieldOpened(path, kind):
                texts[path] = ""
                put(path, {"object": {}, "array": [], "string": ""}[kind])
            case FieldText(path, text):
                assert text
                texts[path] += text
                put(path, texts[path])
            case FieldValue(path, value):
                put(path, value)
    return {} if top.get(0) is None else top[0]


def every_place(text: str) -> Iterator[list[str]]:
    yield [text]
    yield list(text)
    for place in range(1, len(text)):
        yield [text[:place], text[place:]]


def loads(text: str) -> Any:
    """What `json.loads` gives, but for halves of characters, and without NaN and Infinity."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {whole(key): value for key, value in pairs}

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    value: Any = json.loads(text, object_pairs_hook=fields, parse_constant=refuse)
    return whole(value)
