"""What the last event of AG-UI tells: the calls that wait for a verdict, and what the run has used."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ..items import ToolCall, Usage
from ..turns import Turn

RESPONSE_SCHEMA = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "What it shall run with instead."},
        "reason": {"type": "string", "description": "Why not; the model reads it."},
    },
    "required": ["approved"],
}


class Asked(NamedTuple):
    """What the question about a call said besides the call."""

    execution_id: str
    card: msgspec.Raw | None = None


def interrupt_id(call_id: str, sealed: str | None) -> str:
    return call_id if sealed is None else f"{call_id}.{sealed}"


def interrupt(call_id: str, call: ToolCall, asked: Asked, sealed: str | None) -> dict[str, Any]:
    """The question about a call. call_id: as the client knows it."""
    about = {"executionId": asked.execution_id, "toolName": call.name, "card": asked.card}
    return {
        "id": interrupt_id(call_id, sealed),
        "reason": "tool_call",
        "message": f"May {call.name} run?",
        "toolCallId": call_id,
        "responseSchema": RESPONSE_SCHEMA,
        "metadata": {"streamkit": about},
    }


class UsageByModel:
    """What one run has used, sub-agents included; a turn that is told twice counts once."""

    def __init__(self) -> None:
        self._turns: dict[str, tuple[str, Usage]] = {}

    def add(self, turn: Turn) -> None:
        self._turns[turn.turn_id] = (turn.model, turn.usage)

    def told(self) -> dict[str, Any]:
        """The field of the last event; none where nothing is known."""
        by_model: dict[str, Usage] = {}
        for model, usage in self._turns.values():
            by_model[model] = by_model.get(model, Usage()) + usage
        entries = [_token_usage(model, usage) for model, usage in by_model.items() if usage != Usage()]
        return {"usage": entries} if entries else {}


def _token_usage(model: str, usage: Usage) -> dict[str, Any]:
    return {
        **({"model": model} if model else {}),
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cachedInputTokens": usage.cached_tokens,
        "reasoningTokens": usage.reasoning_tokens,
    }
