"""What a call on a server gave, as the value of our call.

The content that the server sends is text for the model, with pictures beside it; structured content is for programs,
and is mostly said in the text once more. What no model of ours can be shown is named, so that it is not missed.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from ..errors import ToolError
from ..items import Image
from ..tools.values import model_text
from .sdk import types

_SHOWN = {"image/png", "image/jpeg", "image/gif", "image/webp"}
"""The pictures that all providers take."""


def value_of(result: types.CallToolResult) -> Any:
    """The value: structured content, text, images; a list of them where there are several, None where there is nothing.

    Text that repeats the structured content is left out. Raises ToolError with the server's text where the result is
    marked as an error.
    """
    blocks = [_shown(block) for block in result.content]
    texts = [block for block in blocks if isinstance(block, str)]
    structured = result.structured_content
    if result.is_error:
        said = "\n".join(texts) or (model_text(structured) if structured is not None else "")
        raise ToolError(said.strip() or "The server says that the call failed, but not why.")
    parts: list[Any] = ["\n".join(texts)] if texts else []
    if structured is not None:
        parts = _said_once(structured, texts)
    parts += [block for block in blocks if isinstance(block, Image)]
    return parts if len(parts) > 1 else next(iter(parts), None)


def _shown(block: types.ContentBlock) -> str | Image:
    match block:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            return _picture(data, kind) or f"[{kind}, which cannot be shown]"
        case types.EmbeddedResource(resource=resource):
            if isinstance(resource, types.TextResourceContents):
                return f"[{resource.uri}]\n{resource.text}"
            kind = resource.mime_type or "bytes"
            return _picture(resource.blob, kind) or f"[{resource.uri}: {kind}, which cannot be shown]"
        case types.ResourceLink(uri=uri, name=name, mime_type=kind, description=description):
            return f"[{', '.join(filter(None, (uri, name, kind, description)))}]"


def _picture(data: str, kind: str) -> Image | None:
    kind = kind.lower()
    try:
        return Image(b64decode(data, validate=True), kind) if kind in _SHOWN else None
    except binascii.Error:
        return None


def _said_once(structured: Any, texts: Sequence[str]) -> list[Any]:
    """The structured content and the texts, without what is there twice.

    Servers that promise structured content wrap what is no object in {"result": …}; the texts say it bare.
    """
    wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
    for value in (structured, *([structured["result"]] if wrapped else ())):
        said = [value, *(value if isinstance(value, list) else ())]
        if all(text in said or _parsed(text) in said for text in texts):
            return [value]
    return [structured, "\n".join(texts)]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
