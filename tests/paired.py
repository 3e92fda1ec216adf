"""A turn of two calls, and results for them."""

from streamkit.items import Message, Reasoning, ToolCall
from streamkit.tool_events import Value
from streamkit.turns import Turn

ONE = ToolCall("c1", "read", '{"p":"a"}', "t1", 0)
TWO = ToolCall("c2", "read", '{"p":"b"}', "t1", 1)


def value(call: ToolCall, text: str = "done") -> Value:
    return Value(call.call_id, call.name, text, text)


def turn(*items: Message | Reasoning | ToolCall, **fields: object) -> Turn:
    return Turn("t1", "m", items, **fields)  # type: ignore[arg-type]
