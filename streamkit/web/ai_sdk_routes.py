"""The routes of AI SDK's `DefaultChatTransport`: `useChat({transport: new DefaultChatTransport({api: "/ai-sdk"})})`.

The client holds the conversation and sends it with each request, approvals and outputs of its own tools included; an
approval that comes twice is refused (409). A run that is written down and goes on without its client is picked up with
`resumeStream()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import MessagesRefused, VerdictRefused
from ..execution.verdicts import from_verdicts
from ..wire.ai_sdk import AiSdkEncoder
from ..wire.ui_messages import from_ui_messages
from .claims import OURS
from .hosting import RUN_ID
from .owners import name_of, new_run_id
from .runs import Run
from .served import NOT_STORED, Served

MAX_CHAT_ID_CHARS = 256
ANOTHER_MESSAGE = "another message came in this chat"


class ChatRun(NamedTuple):
    """The run of a chat that began last. earlier: the parts of its message that had been there before."""

    run_id: str
    encoder: Callable[..., AiSdkEncoder]
    earlier: tuple[dict[str, Any], ...]


class Chats:
    """The runs of chats, by user and chat; each has one. runs: those that go on, by their ids."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self._runs = runs
        self._begun: dict[tuple[bytes, str], ChatRun] = {}

    def __len__(self) -> int:
        return len(self._begun)

    def get(self, chat: tuple[bytes, str]) -> ChatRun | None:
        """The run of a chat, if it goes on."""
        begun = self._begun.get(chat)
        return begun if begun is not None and begun.run_id in self._runs else None

    def take_over(self, chat: tuple[bytes, str], begun: ChatRun) -> Run | None:
        """Let a chat have this run. Gives the one that it had, if that goes on."""
        before = self._begun.get(chat)
        self._begun[chat] = begun
        if len(self._begun) > 2 * len(self._runs):  # not each time: so a run costs no look at all others
            self._begun = {known: run for known, run in self._begun.items() if run.run_id in self._runs}
        return None if before is None else self._runs.get(before.run_id)


class AiSdkRoutes:
    def __init__(self, served: Served) -> None:
        self._host, self._guards, self._redact, self._claims, self._seal = served
        self._chats = Chats(self._host.live.by_id)
        self.routes = [
            Route("/ai-sdk", self._answer, methods=["POST"]),
            Route("/ai-sdk/{chat_id:path}/stream", self._go_on, methods=["GET"]),
        ]

    async def _answer(self, request: Request) -> Response:
        user, body = await self._guards.user_and_body(request, dict[str, Any])
        chat_id = body.pop("id", None)
        if not isinstance(chat_id, str) or not 0 < len(chat_id) <= MAX_CHAT_ID_CHARS:
            raise HTTPException(422, f"the id of a chat has 1 to {MAX_CHAT_ID_CHARS} characters")
        try:
            seal = self._seal.narrowed(name_of(user))
            chat = from_ui_messages(body.pop("messages", None), seal=seal, chat_id=chat_id)
            authorize = from_verdicts(chat.verdicts, chat.conversation)
        except (MessagesRefused, VerdictRefused) as refused:
            raise HTTPException(422, str(refused)) from refused
        run_id = new_run_id(user)
        claim = await self._claims.take(user, OURS, chat.verdicts, authorize)
        run = self._host.new_run(run_id, chat.conversation, authorize=claim, user=user, data=body)
        encoder = partial(
            AiSdkEncoder,
            run_id=chat.message_id or run_id,
            known_calls=chat.known_calls,
            seal=seal,
            chat_id=chat_id,
            redact=self._redact,
        )
        response = await claim.held_by(self._host.answer(run, encoder(), headers={RUN_ID: run_id}))
        before = self._chats.take_over((name_of(user), chat_id), ChatRun(run_id, encoder, chat.parts))
        if before is not None and self._host.journal is not None:  # it might go on without its client, for nobody
            before.stop(ANOTHER_MESSAGE)
        return response

    async def _go_on(self, request: Request) -> Response:
        user = await self._guards.user(request)
        chat = self._chats.get((name_of(user), request.path_params["chat_id"]))
        if chat is None or self._host.journal is None:
            return Response(status_code=204, headers=NOT_STORED)
        # A client that picks its answer up again builds the message anew, from its very beginning.
        return self._host.watch(chat.run_id, chat.encoder(earlier=chat.earlier), headers={RUN_ID: chat.run_id})
