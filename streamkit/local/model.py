"""A real model on this machine, without a key: SmolLM2 with 135 million parameters, so asked that it calls tools.

What so small a model needs, each point tried (with ten questions or more):

- By itself it writes code about tools instead of calling them. So where a call is due its answer is begun for it; from
  there on the server's grammar holds, and every call has a name and arguments that fit the schema.
- After a call it writes the next one, until something stops it. So the end of the first ends the turn, unless
  `parallel_calls=True`: then it writes as many as the question names, if it names more than one.
- It cannot decide between calling and answering. So `tool_choice="auto"` decides by the history: a question is answered
  with calls, results are answered with text. Text is asked for without tools; told of them, it writes about them.
- It never knows when it has said enough, and gets worse when it is not sure of its words. So there is a limit on its
  words, and no chance in them, where the request says nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ConnectionFailed, IncompleteStream, LocalModelError
from ..flows.flow import Flow, Sink
from ..items import ToolOutput, ToolSpec, assistant
from ..providers.model import Model, check_request_given
from ..providers.openai_chat import encode_request as encode_chat_request
from ..providers.openai_chat import openai_chat
from ..turns import Turn, TurnEvent, TurnRequest
from .server import LocalServer, ServerSettings, local_server
from .weights import find_weights

CALL_BEGINS = "<tool_call>\n"
CALL_ENDS = "</tool_call>"
OUTPUT_TOKENS = 160
"""Four calls, or a long paragraph: some four seconds, three times that on a busy machine."""


@asynccontextmanager
async def local_model(*, context_tokens: int = 4096, ready_timeout_seconds: float = 60) -> AsyncIterator[Model]:
    """The model, for as long as the block is open. Its process ends with the block, and with ours, however that ends.

    context_tokens: for requests and answers, those of all turns under way together; the model learned on 8192.
    Raises LocalModelError where it is not installed, or does not start.
    """
    weights = find_weights()
    settings = ServerSettings(str(weights), chat_template(), context_tokens, api_key=secrets.token_urlsafe())
    async with local_server(settings, ready_timeout_seconds=ready_timeout_seconds) as server:
        yield LocalModel(weights.stem, server, settings.api_key)


class LocalModel:
    """The model behind a local server. A turn raises LocalModelError where the server is gone."""

    def __init__(self, name: str, server: LocalServer, api_key: str) -> None:
        self.name = name
        self._server = server
        # One connection a turn: on one that is kept open this server fails to answer every tenth request.
        fresh = {"connection": "close"}
        self._provider = openai_chat(
            name, base_url=f"{server.address}/v1", api_key=api_key, headers=fresh, encode=encode_request, retries=0
        )

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        check_request_given(request)
        turn = self._provider.stream_turn(for_small_model(request))
        return Flow(lambda out: self._forward(out, turn))

    async def _forward(self, out: Sink[TurnEvent], turn: Flow[TurnEvent, Turn]) -> Turn:
        try:
            return await out.forward(turn)
        except (ConnectionFailed, IncompleteStream) as error:
            if reason := await self._server.why_ended():
                raise LocalModelError(f"the local model is gone: {reason}") from error
            raise


def for_small_model(request: TurnRequest) -> TurnRequest:
    """The request that makes the small model do what the given one asks for."""
    tools = tools_to_call(request)
    changed = msgspec.structs.replace(
        request,
        tools=tools,
        tool_choice="auto",
        parallel_calls=None,
        temperature=0.0 if request.temperature is None else request.temperature,
        max_output_tokens=OUTPUT_TOKENS if request.max_output_tokens is None else request.max_output_tokens,
    )
    if not tools:
        return changed
    return msgspec.structs.replace(
        changed,
        history=(*request.history, assistant(CALL_BEGINS)),
        tool_choice="required",
        stop=request.stop if request.parallel_calls else (*request.stop, CALL_ENDS),
    )


def encode_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """As chat completions have it, but an answer's schema as it is.

    llama.cpp holds its model to all of it. What OpenAI could hold one to says nothing of the length of a text, and a
    text without an end is what so small a model writes.
    """
    body = encode_chat_request(msgspec.structs.replace(request, output=None), model)
    if request.output is not None:
        wish = {"type": "json_schema", "json_schema": {"name": "answer", "schema": request.output}}
        body = {"response_format": wish, **body}  # what `extra` says wins
    return body


def tools_to_call(request: TurnRequest) -> tuple[ToolSpec, ...]:
    """The tools of which one must be called in this turn; none where text is to be written.

    Raises ValueError where the request chooses a tool that it does not have.
    """
    match request.tool_choice:
        case "none":
            return ()
        case "auto":
            has_results = bool(request.history) and isinstance(request.history[-1], ToolOutput)
            return () if has_results else request.tools
        case "required":
            return request.tools
        case name:
            chosen = tuple(tool for tool in request.tools if tool.name == name)
            if not chosen:
                raise ValueError(f"tool_choice names {name!r}, which is not among the tools of the request")
            return chosen


def chat_template() -> str:
    """How messages, tools, calls and results become the text that the model reads."""
    return Path(__file__).with_name("chat_template.jinja").read_text("utf-8")
