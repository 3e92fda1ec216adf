"""A client of the AI SDK's UI message stream: builds the message as `process-ui-message-stream.ts` of `ai` 7 does, and
refuses what would break it, or leaves a part open."""

import copy
import json
from typing import Any

CHUNKS: dict[str, tuple[str, ...]] = {
    "start": (), "start-step": (), "finish-step": (), "reset-step": (), "finish": (), "abort": (),
    "error": ("errorText",),
    "text-start": ("id",), "text-delta": ("id", "delta"), "text-end": ("id",),
    "reasoning-start": ("id",), "reasoning-delta": ("id", "delta"), "reasoning-end": ("id",),
    "tool-input-start": ("toolCallId", "toolName"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
    "tool-input-available": ("toolCallId", "toolName", "input"),
    "tool-input-error": ("toolCallId", "toolName", "input", "errorText"),
    "tool-approval-request": ("approvalId", "toolCallId"),
    "tool-approval-response": ("approvalId", "approved"),
    "tool-output-available": ("toolCallId", "output"),
    "tool-output-error": ("toolCallId", "errorText"),
    "tool-output-denied": ("toolCallId",),
    "custom": ("kind",),
    "data-nested": ("id", "data"),
    "data-nested-delta": ("data",),
}  # fmt: skip
"""The chunks that we send, with the fields without which the client takes them for broken."""
TERMINAL = {"finish", "abort", "error"}

Json = dict[str, Any]


def chunks_of(body: bytes) -> list[Json]:
    """Each frame is one line `data: ` of JSON in valid UTF-8, and a blank one; the last says that it is done."""
    *frames, done, rest = body.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    assert all(frame.startswith("data: ") and "\n" not in frame and "\r" not in frame for frame in frames)
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


class UiClient:
    """What a client shows. message: as it goes on, or None for a new one. ended: by the terminal chunk."""

    def __init__(self, message: Json | None = None) -> None:
        self.message: Json = copy.deepcopy(message or {"id": "", "role": "assistant", "parts": []})
        self.ended: Json | None = None
        self.finish_reason: str | None = None
        self.transient: list[Json] = []
        self._texts: dict[str, Json] = {}
        self._inputs: dict[str, str] = {}
        self._begun = False

    @property
    def parts(self) -> list[Json]:
        parts: list[Json] = self.message["parts"]
        return parts

    @property
    def sends_by_itself(self) -> bool:
        """Where it is told to do so when all calls of the last step are complete."""
        assert self.ended is not None
        calls = [part for part in self.parts[self._step_start() :] if "toolCallId" in part]
        calls = [part for part in calls if not part.get("providerExecuted")]
        done = all(
            part["state"] == "output-error" or (part["state"] == "output-available" and not part.get("preliminary"))
            for part in calls
        )
        return bool(calls) and done and self.finish_reason != "interrupted" and self.ended["type"] != "error"

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    def call(self, call_id: str) -> Json:
        (part,) = (part for part in self.parts if part.get("toolCallId") == call_id)
        return part

    def read(self, body: bytes) -> "UiClient":
        for chunk in chunks_of(body):
            self.feed(chunk)
        assert self.ended is not None
        assert not self._texts, "a text was not ended"
        assert all(part.get("state") not in ("input-streaming", "streaming") for part in self.parts)
        assert all(
            part["data"].get("state") not in ("input-streaming", "streaming")
            for part in self.parts
            if part["type"] == "data-nested"
        )
        return self

    def feed(self, chunk: Json) -> None:
        kind = chunk["type"]
        assert chunk.keys() >= set(CHUNKS[kind]), f"the client misses something in {chunk}"
        follows_abort = kind == "finish" and self.ended is not None and self.ended["type"] == "abort"
        assert self.ended is None or follows_abort, f"{kind} after {self.ended}"
        assert self._begun is (kind != "start"), "start comes first, and once"
        self._begun = True
        if kind in TERMINAL:
            self.finish_reason = chunk.get("finishReason")
            self.ended = self.ended or chunk
        elif kind.startswith(("text-", "reasoning-")):
            self._feed_text(chunk, *kind.split("-"))
        elif kind.startswith("tool-"):
            self._feed_call(chunk, kind)
        elif kind.startswith("data-"):
            self._feed_data(chunk)
        elif kind == "custom":
            self.parts.append(dict(chunk))
        elif kind == "start":
            self.message["id"] = chunk["messageId"]
        elif kind == "start-step":
            self.parts.append({"type": "step-start"})
        elif kind == "reset-step":
            self._texts, self._inputs = {}, {}
            del self.parts[self._step_start() :]

    def _step_start(self) -> int:
        return max((place for place, part in enumerate(self.parts, 1) if part["type"] == "step-start"), default=0)

    def _feed_text(self, chunk: Json, word: str, what: str) -> None:
        if what == "start":
            assert chunk["id"] not in self._texts
            assert not self._texts, "a text begins while another is open"
            part = self._texts[chunk["id"]] = {"type": word, "text": "", "state": "streaming"}
            part |= {name: value for name, value in chunk.items() if name == "providerMetadata"}
            self.parts.append(part)
        elif what == "delta":
            self._texts[chunk["id"]]["text"] += chunk["delta"]
        else:
            self._texts.pop(chunk["id"])["state"] = "done"

    def _feed_data(self, chunk: Json) -> None:
        if chunk.get("transient"):
            self.transient.append(chunk)
            return
        for part in self.parts:
            if (part["type"], part.get("id", "")) == (chunk["type"], chunk.get("id")):
                part["data"] = chunk["data"]
                return
        self.parts.append(chunk)

    def _feed_call(self, chunk: Json, kind: str) -> None:
        call_id = chunk.get("toolCallId", "")
        if kind == "tool-input-start":
            assert not self._texts, "a call begins while a text is open"
            assert all(part.get("toolCallId") != call_id for part in self.parts), "an id is given twice"
            self._inputs[call_id] = ""
            self._update(chunk, "input-streaming")
        elif kind == "tool-input-delta":
            self._inputs[call_id] += chunk["inputTextDelta"]
            self._update(chunk | {"rawInput": self._inputs[call_id]}, "input-streaming")
        elif kind in ("tool-input-available", "tool-input-error"):
            self._inputs.pop(call_id, None)
            self._update(chunk, "input-available" if kind == "tool-input-available" else "output-error")
        elif kind == "tool-approval-request":
            asked = {key: value for key, value in chunk.items() if key in ("signature", "isAutomatic")}
            self._known(call_id).update(state="approval-requested", approval={"id": chunk["approvalId"], **asked})
        elif kind == "tool-approval-response":
            (part,) = (part for part in self.parts if part.get("approval", {}).get("id") == chunk["approvalId"])
            answer = {key: chunk[key] for key in ("approved", "reason") if key in chunk}
            part.update(state="approval-responded", approval=part["approval"] | answer)
        else:
            self._end_call(chunk, kind.removeprefix("tool-"))

    def _end_call(self, chunk: Json, state: str) -> None:
        part = self._known(chunk["toolCallId"])
        assert part["state"] != "output-available" or part.get("preliminary"), "a call has two outputs"
        part["state"] = state
        if state == "output-denied":
            assert part["approval"]["approved"] is False
            return
        part |= {"preliminary": chunk.get("preliminary", False)}
        for name in ("output", "errorText"):
            part.pop(name, None)
            if name in chunk:
                part[name] = chunk[name]
        if "providerMetadata" in chunk:
            part["resultProviderMetadata"] = chunk["providerMetadata"]

    def _known(self, call_id: str) -> Json:
        for part in reversed(self.parts):
            if part.get("toolCallId") == call_id:
                return part
        raise AssertionError(f"no call {call_id} in the message")

    def _update(self, chunk: Json, state: str) -> None:
        for part in self.parts[self._step_start() :]:
            if part.get("toolCallId") == chunk["toolCallId"]:
                is_dynamic = part["type"] == "dynamic-tool"
                assert is_dynamic is chunk.get("dynamic", is_dynamic), "the client would make a second part of it"
                break
        else:
            named = {"type": f"tool-{chunk['toolName']}"}
            if chunk.get("dynamic"):
                named = {"type": "dynamic-tool", "toolName": chunk["toolName"]}
            part = {**named, "toolCallId": chunk["toolCallId"]}
            self.parts.append(part)
        part["state"] = state
        part["input"] = chunk.get("input")
        for name in ("rawInput", "errorText", "providerExecuted"):
            part.pop(name, None) if name != "providerExecuted" else None
            if name in chunk:
                part[name] = chunk[name]
        if "providerMetadata" in chunk:
            part["callProviderMetadata"] = chunk["providerMetadata"]

    # What its user does

    def answer(self, approval_id: str, *, approved: bool, reason: str | None = None) -> None:
        (part,) = (part for part in self.parts if part.get("approval", {}).get("id") == approval_id)
        assert part["state"] == "approval-requested"
        part["state"] = "approval-responded"
        part["approval"] |= {"approved": approved} | ({} if reason is None else {"reason": reason})

    def give(self, call_id: str, output: Any) -> None:
        self.call(call_id).update(state="output-available", output=output)
