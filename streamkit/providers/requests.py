"""What the requests of several dialects share: address and key, who said what, ids that a provider takes, images."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal

from ..codec.json_object import nests_deeper_than
from ..items import History, Image, Item, Message, ToolCall, ToolOutput, user
from ..tools.coercion import MAX_NESTING

logger = logging.getLogger("streamkit")

Speaker = Literal["user", "model", "results"]

_ILLEGAL_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

_said: set[str] = set()


def endpoint(base_url: str, path: str) -> str:
    """The address of an endpoint of a server. What the base asks for itself (`?…`) stays behind it."""
    address, mark, query = base_url.partition("?")
    return f"{address.rstrip('/')}{path}{mark}{query}"


def bearer(api_key: str | None, key_variable: str) -> Callable[[], dict[str, str]]:
    """What makes the header with the key. None takes the key from the environment, when a request is made."""

    def headers() -> dict[str, str]:
        key = os.environ.get(key_variable) if api_key is None else api_key
        return {"authorization": f"Bearer {key}"} if key else {}

    return headers


def in_order(history: History) -> Iterator[tuple[Speaker, list[Item]]]:
    """The items of a history as runs of one speaker: the person, the model, or we with the results of its calls."""
    for speaker, items in itertools.groupby(history, _speaker):
        yield speaker, list(items)


def _speaker(item: Item) -> Speaker:
    if type(item) is ToolOutput:
        return "results"
    return "user" if type(item) is Message and item.role == "user" else "model"


def legal_id(call_id: str, legal: re.Pattern[str], form: str = "call_{:.24}") -> str:
    """The id itself where a provider takes it; else one made of it, the same for the call and its result.

    form: of an id that is made, of hexadecimal digits.
    """
    if legal.fullmatch(call_id):
        return call_id
    return form.format(hashlib.sha256(call_id.encode()).hexdigest())


class CallIds:
    """The ids of calls as they are sent, the same for a call and its result.

    legal: an id that the provider takes, of any. once: no two calls have one, since some providers count anew in each
    turn.
    """

    def __init__(self, legal: Callable[[str], str], *, once: bool = True) -> None:
        self._legal = legal
        self._once = once
        self._used: set[str] = set()
        self._sent: dict[str, str] = {}  # by the id in the history; that of its last call

    def of_call(self, call_id: str) -> str:
        sent = self._legal(call_id)
        if self._once:
            if sent in self._used:
                sent = self._legal(f"{call_id}, once more: {len(self._used)}")
            self._used.add(sent)
        self._sent[call_id] = sent
        return sent

    def of_output(self, call_id: str) -> str:
        return self._sent.get(call_id) or self._legal(call_id)


@lru_cache(maxsize=256)  # a history has few names, and each many times
def legal_name(name: str, length: int = 64) -> str:
    """The name of a tool that was called, as providers take it: models call what cannot exist here."""
    return _ILLEGAL_IN_NAMES.sub("_", name)[:length]


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, for dialects that have them so. Text that is none goes under `input`; so does what is
    nested more deeply than a tool takes, since what mends and encodes a body is recursive.
    """
    if not call.custom and not nests_deeper_than(MAX_NESTING, call.arguments):
        try:
            value = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
    return {"input": call.arguments}


def ask_for_json(schema: dict[str, Any]) -> str:
    """What a model is told where its provider cannot hold it to a schema."""
    wish = "Answer with JSON alone, without a fence around it. It fits this JSON Schema:"
    return f"{wish}\n{json.dumps(schema, ensure_ascii=False)}"


def images_of_results(results: list[Item]) -> list[Message]:
    """The images of a run of results, as a message of the person: for providers whose results hold text alone."""
    outputs = [item for item in results if type(item) is ToolOutput and item.images]
    if not outputs:
        return []
    tools = ", ".join(output.tool for output in outputs)
    return [user(f"The images are from the results of: {tools}", *(each for item in outputs for each in item.images))]


def base64_of(image: Image) -> str:
    return base64.b64encode(image.data).decode()


def image_url(image: Image) -> str:
    """The address of an image; of one that came as bytes, the bytes as a data URL."""
    return image.url or f"data:{image.media_type};base64,{base64_of(image)}"


def say_once(message: str) -> None:
    """Log a line that would be the same for every request."""
    if message not in _said:
        _said.add(message)
        logger.warning(message)
