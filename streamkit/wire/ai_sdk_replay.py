"""A message that goes on, told from its beginning: for a client that picks its answer up again, and builds it anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .ai_sdk_chunks import chunk

Json = dict[str, Any]


def replayed(parts: Iterable[Json]) -> bytes:
    """The chunks of parts that a client has sent, as `messages_in` has read them: after these it has them again."""
    return b"".join([said for number, part in enumerate(parts, 1) for said in _chunks(part, f"earlier-{number}")])


def _chunks(part: Json, part_id: str) -> Iterator[bytes]:
    kind = part["type"]
    if kind == "step-start":
        yield chunk("start-step")
    elif kind in ("text", "reasoning"):
        yield chunk(f"{kind}-start", id=part_id, **_present(part, {"providerMetadata": "providerMetadata"}))
        yield chunk(f"{kind}-delta", id=part_id, delta=part["text"])
        yield chunk(f"{kind}-end", id=part_id)
    elif kind == "dynamic-tool" or kind.startswith("tool-"):
        yield from _call_chunks(part)
    else:
        yield chunk(kind, **{name: value for name, value in part.items() if name != "type"})


def _call_chunks(part: Json) -> Iterator[bytes]:
    call_id = {"toolCallId": part["toolCallId"]}
    is_dynamic = part["type"] == "dynamic-tool"
    name = part["toolName"] if is_dynamic else part["type"].removeprefix("tool-")
    shared = _present(part, {"providerExecuted": "providerExecuted"}) | ({"dynamic": True} if is_dynamic else {})
    given = _present(part, {"callProviderMetadata": "providerMetadata"}) | {"input": part.get("input")}
    yield chunk("tool-input-available", **call_id, toolName=name, **shared, **given)
    if (approval := part.get("approval")) is not None:
        yield from _approval_chunks(approval, call_id)
    gave = shared | _present(part, {"resultProviderMetadata": "providerMetadata", "preliminary": "preliminary"})
    match part["state"]:
        case "output-available":
            yield chunk("tool-output-available", **call_id, output=part.get("output"), **gave)
        case "output-error":
            yield chunk("tool-output-error", **call_id, errorText=part.get("errorText") or "")
        case "output-denied":
            yield chunk("tool-output-denied", **call_id)


def _approval_chunks(approval: Json, call_id: Json) -> Iterator[bytes]:
    asked = {"descriptor": "approvalDescriptor", "signature": "signature", "isAutomatic": "isAutomatic"}
    yield chunk("tool-approval-request", approvalId=approval["id"], **call_id, **_present(approval, asked))
    if approval.get("approved") is not None:
        answer = _present(approval, {"approved": "approved", "reason": "reason"})
        yield chunk("tool-approval-response", approvalId=approval["id"], **answer)


def _present(given: Json, names: dict[str, str]) -> Json:
    """Those of these fields that are there, under their names in a chunk."""
    return {ours: given[theirs] for theirs, ours in names.items() if given.get(theirs) is not None}
