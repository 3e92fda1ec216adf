"""A history as the messages of the Messages API: what may stand where, and what goes back unchanged.

The server refuses a conversation for good when one message of it is wrong. What it wants, and how it gets it: messages
with content, text that is not blank (else left out); roles in turn (joined), the first of the person (put before it);
results first, behind their calls (moved); ids of plain letters, each once (rewritten, for the call and its result); no
message that ends in thinking (left out there), and no white space at the very end (cut off); an answer to each call,
also of the server's own tools (the call is left out); failures with words and without images.
Source: the API reference of Anthropic, "Messages", "Refusals and fallback"; what users report of refused requests.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..items import History, Image, Item, Message, ProviderTool, Reasoning, ToolCall, ToolOutput, UnknownItem
from .anthropic_decoder import DIALECT, THOUGHT_KINDS
from .requests import CallIds, Speaker, arguments_object, base64_of, in_order, legal_id, legal_name

Block = dict[str, Any]

LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME_LENGTH = 128
NOTHING_SAID = "(The conversation begins with an answer.)"
NO_REASON = "The call failed, and did not say why."
DECLINED_KINDS = (*THOUGHT_KINDS, "connector_text", "tool_use")
"""Of what a model wrote before another took over, this must not go back."""


def messages_of(history: History, *, unsigned: bool = False) -> list[dict[str, Any]]:
    """unsigned: thinking goes back without a signature, too."""
    runs = _runs(history, unsigned=unsigned)
    answered = _answered(block for _, blocks in runs for block in blocks)
    messages: list[dict[str, Any]] = []
    for (speaker, blocks), (next_speaker, _) in itertools.pairwise([*runs, (None, [])]):
        role = "assistant" if speaker == "model" else "user"
        content = _accepted(blocks, next_speaker, answered) if speaker == "model" else blocks
        if content and messages and messages[-1]["role"] == role:
            content = messages.pop()["content"] + content
            content.sort(key=lambda block: block["type"] != "tool_result")
        if content:
            messages.append({"role": role, "content": content})
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [_text(NOTHING_SAID)]})
    return messages


def _runs(history: History, *, unsigned: bool) -> list[tuple[Speaker | None, list[Block]]]:
    """The blocks of a history by who speaks; none of the runs is empty."""
    runs: list[tuple[Speaker | None, list[Block]]] = []
    ids = _CallIds()
    for speaker, items in in_order(history):
        blocks = [block for item in items for block in _blocks_of(item, ids, unsigned=unsigned)]
        if speaker == "model":
            blocks = _without_declined(blocks, ids)
        if blocks and runs and runs[-1][0] == speaker:
            runs[-1][1].extend(blocks)
        elif blocks:
            runs.append((speaker, blocks))
    return runs


class _CallIds(CallIds):
    """declined: those of calls that are left out, and their results with them."""

    def __init__(self) -> None:
        super().__init__(lambda call_id: legal_id(call_id, LEGAL_ID))
        self.declined: set[str] = set()


# From items to blocks


def _blocks_of(item: Item, ids: _CallIds, *, unsigned: bool) -> Iterator[Block]:
    opaque = (getattr(item, "opaque", None) or {}).get(DIALECT)
    match item:
        case Message(text=text, images=images):
            yield from map(_image, images)
            if text.strip():
                yield _text(text) | (opaque or {})
        case Reasoning() if opaque is not None and "data" in opaque:
            yield {"type": "redacted_thinking"} | opaque
        case Reasoning(text=text) if opaque or (unsigned and opaque is not None):  # of other dialects it is refused
            yield {"type": "thinking", "thinking": text} | opaque
        case ToolCall():
            name = legal_name(item.name, NAME_LENGTH)
            call = {"type": "tool_use", "id": ids.of_call(item.call_id), "name": name}
            yield call | {"input": arguments_object(item)} | (opaque or {})
        case ToolOutput(call_id=call_id) if (sent := ids.of_output(call_id)) not in ids.declined:
            yield _result(item, sent)
        case ProviderTool() if opaque is not None:
            yield opaque
        case UnknownItem(item={"type": str()}, dialect="anthropic"):
            yield item.item


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image(image: Image) -> Block:
    if image.url is not None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": base64_of(image)}}


def _result(output: ToolOutput, sent_id: str) -> Block:
    is_error = output.failed and not output.images
    text = output.text if output.text.strip() else NO_REASON if output.failed else ""
    content = [_text(text)] * bool(text) + [*map(_image, output.images)]
    result: Block = {"type": "tool_result", "tool_use_id": sent_id}
    return result | ({"content": content} if content else {}) | ({"is_error": True} if is_error else {})


# What of the model's blocks goes back


def _without_declined(blocks: list[Block], ids: _CallIds) -> list[Block]:
    """Without what must not go back of a model that declined, before another took over."""
    last_mark = max((place for place, block in enumerate(blocks) if block["type"] == "fallback"), default=0)
    answered = _answered(blocks)
    kept = []
    for place, block in enumerate(blocks):
        if place < last_mark and (block["type"] in DECLINED_KINDS or _is_open(block, answered)):
            ids.declined.add(str(block.get("id")))
        else:
            kept.append(block)
    return kept


def _accepted(blocks: list[Block], next_speaker: Speaker | None, answered: set[Any]) -> list[Block]:
    """The blocks of a message of the model, as it may stand before what comes next.

    A call of the server's own tools may be open where the server goes on with it: at the end, or before results.
    """
    if next_speaker == "user":
        blocks = [block for block in blocks if not _is_open(block, answered)]
    end = len(blocks)
    while end and blocks[end - 1]["type"] in THOUGHT_KINDS:
        end -= 1
    blocks = blocks[:end]
    if next_speaker is None and blocks and blocks[-1]["type"] == "text":
        blocks[-1] = blocks[-1] | {"text": blocks[-1]["text"].rstrip()}
    return blocks


def _answered(blocks: Iterator[Block] | Sequence[Block]) -> set[Any]:
    """The ids of calls of the server's own tools that have a result."""
    return {block["tool_use_id"] for block in blocks if block["type"] != "tool_result" and "tool_use_id" in block}


def _is_open(block: Block, answered: set[Any]) -> bool:
    return block["type"].endswith("_tool_use") and block.get("id") not in answered
