"""Events of Gemini as they are sent, and what is read of them."""

import json
from typing import Any

from streamkit.providers.gemini_decoder import GeminiDecoder

from ..streams import Outcome, outcome


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)


def said(*parts: object, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    end = {} if finish is None else {"finishReason": finish}
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, "index": 0, **end}], **fields}


def call(name: str | None = None, signature: str | None = None, **fields: Any) -> dict[str, Any]:
    signed = {} if signature is None else {"thoughtSignature": signature}
    return {"functionCall": {**({} if name is None else {"name": name}), **fields}, **signed}


def value(path: str, told: Any, *, goes_on: bool = False) -> dict[str, Any]:
    key = {str: "stringValue", int: "numberValue", float: "numberValue", bool: "boolValue"}.get(type(told), "nullValue")
    return {"jsonPath": path, key: told, **({"willContinue": True} if goes_on else {})}


def pieces(*values: object, goes_on: bool = True, **fields: Any) -> dict[str, Any]:
    return call(**{"partialArgs": list(values), **({"willContinue": True} if goes_on else {}), **fields})


BEGIN = said(call("f", willContinue=True))
END = said(call())
STOP = said({"text": ""}, finish="STOP")


def read(*events: object, tail: bytes = b"") -> Outcome:
    return outcome(GeminiDecoder(), [sse(*events) + tail])
