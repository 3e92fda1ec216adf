"""`FlowResponse`: a run as one HTTP response, for a route of Starlette or FastAPI.

The response is a class, and opens, drains and closes its flow in the one task in which the server calls it. A generator
for a `StreamingResponse` cannot do so: it would hold the block of `flow.open()` across its `yield`s, and when the
client leaves, whoever finalises the generator closes the block at another time, in another task (PEP 789).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import anyio
import anyio.lowlevel
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import RunStopped
from ..flows.closing import CLOSING_SECONDS
from ..flows.flow import Flow, Sink
from ..flows.groups import LoneErrorGroup, concerns_all
from ..redaction import Redact
from ..tool_events import RunEvent
from ..wire.ag_ui import AgUiEncoder
from ..wire.ai_sdk import AiSdkEncoder
from ..wire.encoding import Encoder
from ..wire.native import NativeEncoder
from .body import KEEPALIVE_SECONDS, STALL_SECONDS, Body

GATHERING_ROUNDS = 2
"""So many rounds of the event loop go by after each message: who sends in them shares the next. A message costs the
server ten times what an event costs us. The first event after a silence waits for nothing.
"""

SHUTDOWN = "the server is shutting down"

R = TypeVar("R")

logger = logging.getLogger("streamkit")


class FlowResponse(Response):
    """Answers with the events of a flow: opened when the response is sent, cancelled when the client leaves.

    protocol: a name, or an encoder, which knows the ids of its run and client. redact: redact(tool, value) returns what
    is sent in place of arguments and values. An error of the flow is logged; the client is told in the stream, which
    ends in good order. A client that reads slowly slows the tools down.

    keepalive_seconds: the longest silence before a comment is sent. stall_seconds: a client that takes nothing for this
    long counts as gone. For a HEAD request the flow is not opened.
    """

    def __init__(
        self,
        flow: Flow[RunEvent, object],
        protocol: Literal["native", "ai-sdk", "ag-ui"] | Encoder = "native",
        *,
        redact: Redact | None = None,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
        stall_seconds: float = STALL_SECONDS,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        background: BackgroundTask | None = None,
    ) -> None:
        for name, seconds in (("keepalive_seconds", keepalive_seconds), ("stall_seconds", stall_seconds)):
            if not seconds > 0:
                raise ValueError(f"{name} must be more than 0, but is {seconds}; math.inf is never")
        if not isinstance(flow, Flow):
            raise TypeError(f"FlowResponse takes a flow, such as converse(…), not {type(flow).__name__}")
        self._flow = _tamed(flow)
        self._encoder = encoder_for(protocol, redact)
        self._keepalive_seconds = keepalive_seconds
        self._stall_seconds = stall_seconds
        self.status_code = status_code
        self.background = background
        self.init_headers({"content-type": self._encoder.media_type, **self._encoder.headers, **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with LoneErrorGroup() as tasks:
            body = Body(
                receive,
                send,
                tasks.cancel_scope,
                keepalive_seconds=self._keepalive_seconds,
                stall_seconds=self._stall_seconds,
            )
            tasks.start_soon(body.listen)
            tasks.start_soon(body.watch)
            await body.start(self.status_code, self.raw_headers)
            if scope["method"] == "HEAD":
                await body.close(b"")
            else:
                await self._fill(body)
            tasks.cancel_scope.cancel()
        if self.background is not None:
            await self.background()

    async def _fill(self, body: Body) -> None:
        try:
            last = await self._drain(body)
        except anyio.get_cancelled_exc_class():
            if not body.client_has_gone:
                with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                    await body.close(self._encoder.error(RunStopped(SHUTDOWN)))
            raise
        await body.close(last)

    async def _drain(self, body: Body) -> bytes:
        """Run the flow into the body, all but the last piece."""
        try:
            await body.send_pieces([self._encoder.open()])
            async with self._flow.open() as events:
                while batch := await events.take():
                    await body.send_pieces(map(self._encoder.event, batch))
                    await others_send()
            return self._encoder.end(events.value)
        except RunStopped as stopped:
            return self._encoder.error(stopped)
        except Exception as error:
            logger.error("a run that was streamed to a client failed", exc_info=error)
            return self._encoder.error(error)


async def others_send() -> None:
    """Called behind a message: what comes meanwhile shares the next."""
    for _ in range(GATHERING_ROUNDS):
        await anyio.lowlevel.checkpoint()


def _tamed(flow: Flow[RunEvent, R]) -> Flow[RunEvent, R]:
    """The same, where all that fails it alone is an Exception, which waits until the events before it are sent.

    A BaseException, as extensions in Rust raise for what is wrong in them, would cut the body off in a message.
    """

    async def run(out: Sink[RunEvent]) -> R:
        try:
            return await out.forward(flow)
        except BaseException as error:
            if isinstance(error, Exception) or concerns_all(error):
                raise
            raise RuntimeError(f"the run raised {type(error).__name__}") from error

    return Flow(run)


def encoder_for(protocol: str | Encoder, redact: Redact | None) -> Encoder:
    """The encoder of a protocol, for a run that only its stream knows."""
    if not isinstance(protocol, str):
        if redact is not None:
            raise TypeError("give redact= to the encoder itself")
        return protocol
    if protocol not in ENCODERS:
        raise ValueError(f"protocol is one of {', '.join(map(repr, ENCODERS))}, or an encoder, not {protocol!r}")
    return ENCODERS[protocol](run_id=secrets.token_urlsafe(16), redact=redact)


ENCODERS: Mapping[str, Callable[..., Encoder]] = {
    "native": NativeEncoder,
    "ai-sdk": AiSdkEncoder,
    "ag-ui": AgUiEncoder,
}
