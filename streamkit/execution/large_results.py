"""Results that are too long for a model: it reads the beginning, and may ask for more.

The consumer and the journal have all of a value; only what the model reads is cut. `read_result` is the tool that gives
it the rest, from where the whole is kept: the journal of the run, else its `Running`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..errors import ToolError
from ..journal.log import RunLog
from ..tool_events import Failure, Value
from ..tools.decorators import tool
from ..tools.tool import Tool
from ..tools.values import what_the_model_gets
from .running import Running

READER = "read_result"
"""The name of the tool that reads on."""
PAGE_CHARS = 16_000
"""How much of a kept result one call of it gives."""


def cut_to(limit_bytes: int, result: Value | Failure, execution_id: str, *, can_read_on: bool) -> Value | Failure:
    """The result, with the text that the model reads cut to a limit. can_read_on: the model has `read_result`."""
    text = result.text if isinstance(result, Value) else result.message
    if len(text) <= limit_bytes // 4:  # no character has more bytes
        return result
    written = text.encode(errors="replace")
    if len(written) <= limit_bytes:
        return result
    head = written[:limit_bytes].decode(errors="ignore")
    note = f"\n[Cut: these are the first {len(head)} of {len(text)} characters."
    if isinstance(result, Value):
        more = f' {READER} with result="{execution_id}" and offset={len(head)} gives more.' if can_read_on else ""
        return msgspec.structs.replace(result, text=f"{head}{note}{more}]")
    return result.saying(f"{head}{note}]")


def result_reader(kept: RunLog | Running) -> Tool[..., Any]:
    """The tool `read_result`, with which a model reads the rest of a result that was cut. kept: where all of it is.

    Add it to the toolkit: `toolkit | Toolkit(result_reader(running))`.
    """

    @tool(name=READER, effects="none")
    async def read_result(
        result: Annotated[str, Meta(description="the id that the note at the end of the cut result names")],
        offset: Annotated[int, Meta(ge=0, description="the first character to read")] = 0,
    ) -> str:
        """Read on in the result of a call that was too long to be shown whole."""
        found = await kept.result(result) if isinstance(kept, RunLog) else kept.results.get(result)
        if not isinstance(found, Value):
            raise ToolError(f"There is no result {result}.")
        text = what_the_model_gets(_with_images(found))[0]
        if offset >= len(text):
            raise ToolError(f"The result {result} has {len(text)} characters: nothing begins at {offset}.")
        end = min(offset + PAGE_CHARS, len(text))
        rest = f"offset={end} gives more" if end < len(text) else "this is the end"
        return f"{text[offset:end]}\n[Characters {offset} to {end} of {len(text)}; {rest}.]"

    return read_result


def _with_images(found: Value) -> Any:
    """The value as the tool gave it: one that was written down holds its images as trees of JSON."""
    if not found.images or not isinstance(found.value, list):
        return found.value
    written = [msgspec.to_builtins(image) for image in found.images]
    return [found.images[written.index(item)] if item in written else item for item in found.value]
