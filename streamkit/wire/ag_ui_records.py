"""What an AG-UI client sends to start a run: the fields of it that mean something here.

Source: the models of `ag-ui-protocol` 1.0.0. Fields that nobody knows are let be.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class _Camel(msgspec.Struct, rename="camel"):
    pass


class Source(_Camel):
    type: str
    value: str
    mime_type: str | None = None


class ContentPart(_Camel):
    type: str
    text: str | None = None
    source: Source | None = None


class FunctionCall(_Camel):
    name: str
    arguments: str


class Called(_Camel):
    id: str
    function: FunctionCall
    metadata: dict[str, Any] | None = None

    @property
    def ours(self) -> dict[str, Any]:
        """What our encoder wrote at the call."""
        return _ours(self.metadata)


class Said(_Camel):
    """A message of any role; each has some of the fields."""

    id: str
    role: str
    content: str | list[ContentPart] | dict[str, Any] | None = None
    tool_calls: list[Called] | None = None
    tool_call_id: str | None = None
    error: str | None = None
    encrypted_value: str | None = None
    metadata: dict[str, Any] | None = None
    subagent_run_id: str | None = None

    @property
    def ours(self) -> dict[str, Any]:
        """What our encoder wrote at the message."""
        return _ours(self.metadata)


class Offered(_Camel):
    """A tool that the client runs."""

    name: str
    description: str
    parameters: Any = None


class Resume(_Camel):
    """An answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(_Camel):
    """The body of a request."""

    thread_id: str
    run_id: str
    messages: list[Said]
    state: Any = None
    tools: list[Offered] | None = None
    context: list[dict[str, Any]] | None = None
    forwarded_props: Any = None
    resume: list[Resume] | None = None


def _ours(metadata: dict[str, Any] | None) -> dict[str, Any]:
    ours = (metadata or {}).get("streamkit")
    return ours if isinstance(ours, dict) else {}
