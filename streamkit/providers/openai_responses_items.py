"""The items that the output of a response is made of: their kinds, and what they are in our words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..codec.surrogates import whole
from ..items import ProviderTool, UnknownItem
from ..parts import Part
from ..turns import ReasoningDelta, RefusalDelta, TextDelta
from .failures import parsed
from .odd_fields import text_or_none

DIALECT = "openai_responses"

Place = int | float | str | None
"""`output_index` of an item, or its id where there is none."""

PART_OF: dict[str, Callable[[str], Part]] = {
    "output_text": TextDelta,
    "refusal": RefusalDelta,
    "reasoning_text": ReasoningDelta,
    "summary_text": lambda text: ReasoningDelta(text, "summary"),
}
"""By kind of the part of an item: what its text is."""
PARTS = {"message": ("output_text", "refusal"), "reasoning": ("summary_text", "reasoning_text")}
"""Items that are text, and the kinds of their parts."""
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that are calls of ours, and the field with their text."""
_OWN_FIELDS = ("type", "role", "content", "status", "call_id", "name", "arguments", "input")
"""What a record of ours has of a message or a call. The other fields are opaque."""
_PROVIDER_TOOLS = {
    "web_search_call": ("action", ""),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt", "result"),
    "mcp_call": ("arguments", "output"),
    "mcp_list_tools": ("", "tools"),
    "tool_search_call": ("arguments", ""),
    "tool_search_output": ("", "tools"),
    "program": ("code", ""),
    "program_output": ("", "result"),
}
"""What the provider runs itself: the fields of the input and of the output. Everything else (calls of a shell, of a
patch, of a computer, requests for approval, compaction) is either the client's to answer, or nobody's tool."""


class OutputItem:
    """One item of the output. told: it, as it was added."""

    def __init__(self, number: int, kind: str, told: dict[str, Any]) -> None:
        self.number = number
        self.kind = kind
        self.told = told
        self.item_id = scalar(told.get("id"))
        self.call_id = text_or_none(told.get("call_id"))
        self.name = text_or_none(told.get("name"))
        self.texts: dict[str, dict[Place, list[str]]] = {}  # pieces, by kind and index of the part
        self.annotations = 0
        self.has_pieces = False  # of a call
        self.ended_with: str | None = None  # the arguments with which a call was said to be whole
        self.input_told = False  # of a tool of the provider
        self.is_done = False
        self.is_cut = False  # of a call: it was told to be incomplete, and never whole

    @property
    def ids(self) -> tuple[Place, ...]:
        return tuple(each for each in (self.call_id, self.item_id) if each is not None)

    @property
    def text(self) -> str:
        """All that was sent of it."""
        return "".join(piece for parts in self.texts.values() for pieces in parts.values() for piece in pieces)

    @property
    def tool_id(self) -> str:
        """What a tool of the provider is called by, which may have no id."""
        return text_or_none(self.item_id) or f"{self.kind}_{self.number}"


def of_the_provider(item: OutputItem, told: dict[str, Any]) -> ProviderTool | UnknownItem:
    """An item that is neither text nor a call of ours. told: it, whole; so it goes back."""
    fields = _PROVIDER_TOOLS.get(item.kind)
    if fields is None or told.get("execution") == "client":
        return UnknownItem(told, DIALECT)
    output = told.get(fields[1]) or told.get("error")
    return ProviderTool(
        item.tool_id,
        text_or_none(told.get("name")) or item.kind,
        None if item.input_told else input_of(told.get(fields[0])),
        output,
        item.kind,
        {DIALECT: told},
    )


def opaque_of(told: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in _OWN_FIELDS}


def input_of(told: object) -> object:
    """What a tool of the provider was given: the object, where that was sent as its text."""
    return whole(parsed(told)) if isinstance(told, str) and told.startswith("{") else told


def ids_of(told: dict[str, Any]) -> tuple[Place, ...]:
    """What an item is called by. The call_id comes first: it is the one that stays."""
    return tuple(each for each in (text_or_none(told.get("call_id")), scalar(told.get("id"))) if each is not None)


def is_item(told: object) -> bool:
    return isinstance(told, dict) and isinstance(told.get("type"), str)


def text_of(part: object) -> tuple[str, str]:
    """The kind and the text of a part of an item; two empty ones where it is no text."""
    match part:
        case {"type": "output_text" | "text", "text": str(text)}:
            return "output_text", text
        case {"type": "summary_text" | "reasoning_text" as kind, "text": str(text)}:
            return kind, text
        case {"type": "refusal", "refusal": str(text)}:
            return "refusal", text
    return "", ""


def texts_of(told: dict[str, Any]) -> str:
    """The texts of all parts of an item."""
    return "".join(text_of(part)[1] for field in ("summary", "content") for part in list_of(told.get(field)))


def scalar(value: Any) -> Place:
    """An index or an id; anything else is none."""
    return value if isinstance(value, int | float | str) else None


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
