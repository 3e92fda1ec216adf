"""Items of ours as parts of AI SDK messages, as they are on the screen when a run has ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ..conversation import Conversation
from ..items import Item, Message, ProviderTool, Reasoning, ToolCall, ToolOutput
from ..providers.requests import image_url
from ..tool_events import Failure, Pending, ToolResult, Value
from ..turns import Turn
from .ai_sdk_chunks import kept_part, tool_part
from .ai_sdk_seals import Asked, sealed
from .encoding import VALUE_LIMIT_BYTES
from .kept_turns import kept_turn
from .seals import Seal

Json = dict[str, Any]


def parts_of_person(message: Message) -> Iterator[Json]:
    for picture in message.images:
        yield {"type": "file", "mediaType": picture.media_type or "image", "url": image_url(picture)}
    if message.text:
        yield {"type": "text", "text": message.text}


class ShownParts:
    """The parts of messages of the assistant. client_tools, dynamic, seal, chat_id: as of `to_ui_messages`."""

    def __init__(self, client_tools: Collection[str], *, dynamic: bool, seal: Seal | None, chat_id: str) -> None:
        self._client_tools = client_tools
        self._dynamic = dynamic
        self._seal = seal
        self._chat_id = chat_id

    def of_history(self, items: Sequence[Item]) -> Iterator[Json]:
        """A step is what the model said, up to and with the results of its calls."""
        outputs = {item.call_id: item for item in items if isinstance(item, ToolOutput)}
        step: list[Item] = []
        for item in items:
            if not isinstance(item, ToolOutput):
                step.append(item)
            elif step:
                yield from self._step(step, lambda call: _output_of(outputs.get(call.call_id)))
                step = []
        if step:
            yield from self._step(step, lambda call: _output_of(outputs.get(call.call_id)))

    def of_unsettled(self, conversation: Conversation, turn: Turn) -> Iterator[Json]:
        """The turn whose calls wait, as a step."""
        execution_ids = {call.call_id: execution_id for execution_id, call in conversation.waiting.items()}
        results = {result.call_id: result for result in conversation.results}

        def state_of(call: ToolCall) -> Json:
            execution_id = execution_ids.get(call.call_id)
            if execution_id is None:
                return _result_of(results.get(call.call_id), call)
            if execution_id in conversation.paused:  # nobody was asked about this call, but about one inside it
                return {"state": "input-available"}
            return self._question(call, execution_id)

        yield from self._step(turn.items, state_of)

    def _step(self, items: Sequence[Item], state_of: Callable[[ToolCall], Json]) -> Iterator[Json]:
        yield {"type": "step-start"}
        for item in items:
            match item:
                case Message(text=text) | Reasoning(text=text) if text:
                    yield {"type": "text" if isinstance(item, Message) else "reasoning", "text": text, "state": "done"}
                case ToolCall():
                    part = tool_part(item.name or "unnamed", dynamic=self._dynamic)
                    yield part | {"toolCallId": item.call_id, "input": _input_of(item)} | state_of(item)
                case ProviderTool(call_id=call_id, name=name, input=given, output=output) if output is not None:
                    part = tool_part(name or "unnamed", dynamic=self._dynamic) | {"toolCallId": call_id or name}
                    shown = {"input": given, "output": output, "providerExecuted": True}
                    yield part | {"state": "output-available"} | shown
        yield from self._kept(items)

    def _kept(self, items: Iterable[Item]) -> Iterator[Json]:
        if self._seal is not None:
            kept = kept_turn(items, {}, self._seal, self._chat_id, limit_bytes=VALUE_LIMIT_BYTES)
            if kept is not None:
                yield kept_part(kept)

    def _question(self, call: ToolCall, execution_id: str) -> Json:
        if call.name in self._client_tools:
            return {"state": "input-available"}
        approval = {"id": execution_id}
        if self._seal is not None:
            asked = Asked(execution_id, call.call_id, call.name, _input_of(call))
            approval["signature"] = sealed(self._seal, self._chat_id, asked)
        return {"state": "approval-requested", "approval": approval}


def _input_of(call: ToolCall) -> Any:
    return call.arguments if call.custom else _value_of(call.arguments)


def _output_of(output: ToolOutput | None) -> Json:
    if output is None:
        return {"state": "input-available"}
    if output.failed:
        return {"state": "output-error", "errorText": output.text}
    if output.images:
        shown = [msgspec.to_builtins(picture) for picture in output.images]
        return {"state": "output-available", "output": [*shown, *([output.text] if output.text else [])]}
    return {"state": "output-available", "output": _value_of(output.text)}


def _value_of(text: str) -> Any:
    """What a text says that is an object or a list as JSON; any other text is only itself."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text


def _result_of(result: ToolResult | None, call: ToolCall) -> Json:
    match result:
        case Value(value=value):
            return {"state": "output-available", "output": msgspec.to_builtins(value, enc_hook=repr, str_keys=True)}
        case Failure(message=message):
            return {"state": "output-error", "errorText": message}
        case Pending() | None:
            return {"state": "output-error", "errorText": f"the call was {call.abandoned or 'left'}"}
