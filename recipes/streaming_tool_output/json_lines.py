"""A run as JSON, an event a line, for programs.

A line goes out as soon as it is whole. Who reads them, at the other end of a pipe, may be slow or gone: we wait where
an interruption is heard, and BrokenPipeError ends the run.
"""

from __future__ import annotations

import contextlib
from typing import Any, BinaryIO

import anyio
import msgspec

from streamkit.items import Tagged
from streamkit.terminal import Screen


class JsonLines(Screen):
    """Each event as one line of JSON, and nothing else."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._out = out

    async def put(self, event: object) -> None:
        await put(self._out, json_line(event))

    async def end(self) -> None: ...

    def cut(self, why: str) -> None: ...

    async def ask(self, question: str) -> None: ...

    async def say(self, text: str = "") -> None: ...

    async def wait(self, what: str) -> None: ...


async def put(out: BinaryIO, line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # a file is always writable, and there is no waiting for it
        await anyio.wait_writable(out)
    out.write(line)
    out.flush()


def json_line(event: object) -> bytes:
    """The event as a line of JSON, which decodes to a RunEvent, whatever a tool has put into it.

    What has no JSON form is shown as Python shows it.
    """
    try:
        return msgspec.json.encode(event, enc_hook=repr) + b"\n"
    except Exception:  # half a character, a key that is no text, an object in itself, a repr that raises
        return msgspec.json.encode(_as_far_as_possible(event)) + b"\n"


def _as_far_as_possible(value: Any) -> Any:
    if isinstance(value, Tagged):
        fields = {name: _as_far_as_possible(getattr(value, name)) for name in value.__struct_fields__}
        return {"type": value.__struct_config__.tag, **fields}
    if isinstance(value, tuple):
        return [_as_far_as_possible(each) for each in value]
    with contextlib.suppress(Exception):
        return msgspec.Raw(msgspec.json.encode(value, enc_hook=repr))
    try:
        return _whole_characters(value if isinstance(value, str) else repr(value))
    except Exception:
        return object.__repr__(value)


def _whole_characters(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
