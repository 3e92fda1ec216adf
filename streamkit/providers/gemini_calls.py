"""Calls of Gemini: the fields that are read, and calls that come value by value.

Source: the API references of Gemini and Vertex AI, "FunctionCall" and "PartialArg".
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..codec.json_paths import GrowingObject
from ..errors import DecodeError
from ..parts import InputDelta, InputEnd, InputOpaque, InputStart, Part, WholeCall
from ..tool_input import as_text
from .odd_fields import text_or_none

SIGNATURE = "thoughtSignature"


class Value(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """A value of a call that comes in pieces, or a piece of a string."""

    json_path: Any = None
    string_value: Any = None
    number_value: Any = None
    bool_value: Any = None
    null_value: Any = msgspec.UNSET
    will_continue: Any = None


class Call(msgspec.Struct, gc=False, rename="camel"):
    id: Any = None
    name: Any = None
    args: Any = None
    partial_args: list[Value] | None = None
    will_continue: Any = None


class CallInPieces:
    """A call whose arguments come value by value. Where they make no object, it ends without having become one."""

    def __init__(self, index: int, told: Call, parts: list[Part]) -> None:
        self._index = index
        self._name, self.call_id = text_or_none(told.name), text_or_none(told.id)
        self._arguments = GrowingObject()
        self._is_broken = False
        parts.append(InputStart(index, self.call_id, self._name, without_id=self.call_id is None))
        parts.append(InputDelta(GrowingObject.START, index))

    @property
    def is_inside_value(self) -> bool:
        return self._arguments.is_inside_string

    def is_followed_by(self, told: Call) -> bool:
        """Whether this begins another call. A name does, unless it is repeated with the id or with more values."""
        name, call_id = text_or_none(told.name), text_or_none(told.id)
        if name is None or (call_id is not None and call_id == self.call_id):
            return False
        has_new_id = call_id is not None and self.call_id is not None
        return name != self._name or has_new_id or not told.partial_args

    def read(self, told: Call, signature: Any, parts: list[Part]) -> None:
        if signature is not None or told.id is not None:
            parts.append(InputOpaque(_opaque(told, signature), "gemini", self._index))
        text = ""
        for value in told.partial_args or ():
            text += self._text_of(value)
        if told.args and isinstance(told.args, dict):
            text += "".join(map(self._text_of, told.args.items()))
        if text:
            parts.append(InputDelta(text, self._index))

    def _text_of(self, value: Value | tuple[str, Any]) -> str:
        """What a value adds to the text. One that fits nowhere, and all after it, are shown as they came."""
        if not self._is_broken:
            try:
                if type(value) is Value and type(value.string_value) is str and type(value.json_path) is str:
                    goes_on = bool(value.will_continue)
                    return self._arguments.put_text(value.json_path, value.string_value, goes_on=goes_on)
                return self._put(value)
            except DecodeError:
                self._is_broken = True
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)

    def _put(self, value: Value | tuple[str, Any]) -> str:
        if isinstance(value, tuple):
            return self._arguments.put_key(*value)
        told = (value.string_value, value.number_value, value.bool_value)
        found = next((each for each in told if each is not None), None)
        if found is None and value.null_value is msgspec.UNSET:
            return ""
        if not isinstance(value.json_path, str) or isinstance(found, dict | list):
            raise DecodeError("a value of a call has no path, or is not a single one")
        return self._arguments.put(value.json_path, found)

    def end(self, parts: list[Part]) -> None:
        if not self._is_broken:
            try:
                parts.append(InputDelta(self._arguments.end(), self._index))
            except DecodeError:
                self._is_broken = True
        parts.append(InputEnd(self._index))


def whole_call(told: Call, signature: Any) -> WholeCall:
    arguments = as_text(told.args) if isinstance(told.args, str | dict | None) else json.dumps(told.args)
    opaque = _opaque(told, signature)
    return WholeCall(
        text_or_none(told.name) or "", arguments, text_or_none(told.id), opaque={"gemini": opaque} if opaque else None
    )


def _opaque(call: Call, signature: Any) -> dict[str, Any]:
    """What goes back with a call. Its id, too: only where it had one, and not ours, where several had the same."""
    opaque = {"id": call.id} if call.id else {}
    return opaque if signature is None else {**opaque, SIGNATURE: signature}
