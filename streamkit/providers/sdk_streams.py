"""Turns from the streams of the official SDKs: `from_openai_stream`, `from_anthropic_stream`.

For programs that have a client already. Nothing of an SDK is imported, and what is known of servers is known in one
place: the decoder of the dialect reads the bytes of the answer, which the stream of an SDK has not begun to read. Where
they are not to be had, its events, which are pydantic models, are written as JSON again.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import Any, NamedTuple

import anyio

from ..errors import BadPayload, ConnectionFailed, FlowError, ModelError
from ..flows.closing import CLOSING_SECONDS
from ..flows.flow import Flow, Sink
from ..items import ToolSpec
from ..turns import Turn, TurnEvent, TurnRequest
from .anthropic_decoder import AnthropicDecoder
from .exchange import complete_error, without_secrets
from .failures import provider_error, shortened
from .model import Decoder, decoded, run_turn
from .openai_chat_decoder import OpenAIChatDecoder
from .openai_responses_decoder import OpenAIResponsesDecoder

logger = logging.getLogger("streamkit")

_MADE_BY_HELPER = ("text", "thinking", "signature", "citation", "input_json", "compaction")
"""What `messages.stream(…)` adds to the events of the server."""


class _Sdk(NamedTuple):
    """decoder: for the path of a request, or the type of the first event. raw: an event as the server sent it; None for
    one that the SDK made up."""

    decoder: Callable[[str], Decoder]
    raw: Callable[[Any], Any]


def from_openai_stream(stream: Any, *, tools: Iterable[ToolSpec] = ()) -> Flow[TurnEvent, Turn]:
    """The turn that a stream of the package openai holds, of chat completions or of responses.

    stream: a function that starts one, so that the flow can be opened again: `lambda: client.responses.create(…,
    stream=True)`, or `.stream(…)`, or the same of `client.chat.completions`, of an AsyncOpenAI. A stream itself will do
    for a flow that is opened once. tools: those of the request; they decide whether pieces of a name are joined.

    The stream is closed in the end. What the package raises on the way becomes a ModelError.
    """
    return _flow_of(stream, tools, _Sdk(_openai_decoder, _raw_openai_event))


def from_anthropic_stream(stream: Any, *, tools: Iterable[ToolSpec] = ()) -> Flow[TurnEvent, Turn]:
    """The turn that a stream of the package anthropic holds.

    stream: `lambda: client.messages.create(…, stream=True)`, or `lambda: client.messages.stream(…)`, of an
    AsyncAnthropic; all else as for `from_openai_stream`.
    """
    return _flow_of(stream, tools, _Sdk(lambda _: AnthropicDecoder(), _raw_anthropic_event))


def _flow_of(stream: Any, tools: Iterable[ToolSpec], sdk: _Sdk) -> Flow[TurnEvent, Turn]:
    request = TurnRequest((), tuple(tools))
    was_opened = False

    async def run(out: Sink[TurnEvent]) -> Turn:
        nonlocal was_opened
        if was_opened and not callable(stream):
            raise FlowError("this stream was read before: give a function that makes one, lambda: client.…")
        was_opened = True
        opened = await _open(stream)
        response = _unread_response(opened)
        pulled = _Pulled(opened, opened if response is None else response.aiter_bytes())
        try:
            if response is not None:
                model, told = _asked_model(response), response.request.url.path
                return await run_turn(out, model, request, decoded(pulled, sdk.decoder(told)))
            body, model, told = await _framed(pulled, sdk.raw)
            return await run_turn(out, model, request, decoded(body, sdk.decoder(told)))
        except ModelError as error:
            _complete(error, response)
            raise
        finally:
            await pulled.close()

    return Flow(run)


def _openai_decoder(told: str) -> Decoder:
    is_response = told.startswith("response.") or told.endswith("/responses")
    return OpenAIResponsesDecoder() if is_response else OpenAIChatDecoder()


# The stream of an SDK, and the bytes that it is about to read


async def _open(stream: Any) -> Any:
    """What iterates over the events of a stream, and closes it."""
    try:
        made = stream() if callable(stream) else stream
        made = await made if inspect.isawaitable(made) else made
        opened = await made.__aenter__() if hasattr(made, "__aenter__") else made
    except Exception as error:
        ours = _as_ours(error)
        if ours is None:
            raise
        raise ours from error
    if not hasattr(opened, "__aiter__"):
        told = f"{type(opened).__name__} is not an asynchronous stream: ask an asynchronous client, with stream=True"
        raise TypeError(told)
    return opened


def _unread_response(opened: Any) -> Any:
    """The answer of the server, if it is a stream of events that nobody has begun to read."""
    response: Any = getattr(opened, "response", None) or getattr(opened, "_response", None)
    if not hasattr(response, "aiter_bytes") or response.is_stream_consumed:
        return None
    return response if response.headers.get("content-type", "").startswith("text/event-stream") else None


def _asked_model(response: Any) -> str:
    try:
        return str(json.loads(response.request.content)["model"])
    except (ValueError, KeyError, TypeError, RuntimeError):  # the last for a request that was streamed itself
        return ""


class _Pulled:
    """Pieces of a stream as they come. Errors of the SDK, and of its HTTP client, are ours."""

    def __init__(self, opened: Any, pieces: Any) -> None:
        self._opened = opened
        self._pieces = pieces if hasattr(pieces, "__anext__") else aiter(pieces)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            raise
        except Exception as error:
            raise _as_ours(error) or _unreadable(error) from error

    async def close(self) -> None:
        """Close the stream, and end the generators inside of it, or trio warns of them.

        Pulled on over a connection that is closed, they end.
        """
        close = getattr(self._opened, "close", None) or getattr(self._opened, "aclose", None)
        if close is None:
            return
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            for again in (close, self._pull_to_the_end):
                try:
                    await again()
                except Exception:
                    logger.debug("a stream ended with an error when it was closed", exc_info=True)

    async def _pull_to_the_end(self) -> None:
        with contextlib.suppress(StopAsyncIteration):
            while True:
                await anext(self._pieces)


# Events of an SDK, as bytes


async def _framed(pulled: _Pulled, raw: Callable[[Any], Any]) -> tuple[AsyncIterator[bytes], str, str]:
    """The events as a server sends them; the model and the type that the first one names."""
    first = await _next_raw(pulled, raw)
    whole = getattr(first, "response", None) or getattr(first, "message", None) or first
    return _frames(first, pulled, raw), str(getattr(whole, "model", None) or ""), _type_of(first)


async def _frames(first: Any, pulled: _Pulled, raw: Callable[[Any], Any]) -> AsyncGenerator[bytes, None]:
    event = first
    while event is not None:
        yield _frame(event)
        event = await _next_raw(pulled, raw)


async def _next_raw(pulled: _Pulled, raw: Callable[[Any], Any]) -> Any:
    async for event in pulled:
        if (found := raw(event)) is not None:
            return found
    return None


def _frame(event: Any) -> bytes:
    """Only what was set, under the names that it has on the wire."""
    options: dict[str, Any] = {"by_alias": True, "exclude_unset": True, "warnings": False}
    try:
        text: str = event.model_dump_json(**options)
    except ValueError:  # half a character, which no UTF-8 can hold
        text = json.dumps(event.model_dump(**options), default=str)
    return b"data: " + text.encode() + b"\n\n"


def _raw_openai_event(event: Any) -> Any:
    """`chat.completions.stream(…)` adds events of its own to those that carry the chunks."""
    if _type_of(event) == "chunk":
        return event.chunk
    return event if hasattr(event, "choices") or _type_of(event).startswith(("response.", "error")) else None


def _raw_anthropic_event(event: Any) -> Any:
    return None if _type_of(event) in _MADE_BY_HELPER else event


def _type_of(event: Any) -> str:
    return str(getattr(event, "type", ""))


# Errors of an SDK


def _as_ours(error: Exception) -> ModelError | None:
    """By names: an SDK has classes of its own for errors, and lets those of its HTTP client through while it reads."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"APIConnectionError", "RequestError"}:
        words = " ".join(str(each) for each in (error, error.__cause__) if each is not None)
        ours: ModelError = ConnectionFailed(shortened(words))
    elif "APIError" in names:
        ours = provider_error(getattr(error, "body", None) or str(error))
    else:
        return None
    _complete(ours, getattr(error, "response", None), getattr(error, "request", None))
    if secret := [each for each in error.args if isinstance(each, str)]:
        error.args = tuple(_without_secrets(each, getattr(error, "request", None)) for each in secret)
    return ours


def _unreadable(error: Exception) -> ModelError:
    return BadPayload(shortened(f"the package could not read its stream: {type(error).__name__} {error}"))


def _complete(error: ModelError, response: Any, request: Any = None) -> None:
    """Add what the answer says of an error, and take out what the request holds."""
    error.args = (_without_secrets(str(error), request or getattr(response, "request", None)),)
    if response is not None:
        complete_error(error, response)


def _without_secrets(words: str, request: Any) -> str:
    return words if request is None else without_secrets(words, request.headers.values())
