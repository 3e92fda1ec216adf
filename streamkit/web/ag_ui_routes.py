"""The route of AG-UI: `new HttpAgent({url: "/ag-ui"})`. The client holds the conversation, and may have tools.

A `resume` that lets a call run a second time is refused (409).
"""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import MessagesRefused, VerdictRefused
from ..wire.ag_ui_input import from_run_input
from .hosting import RUN_ID
from .owners import name_of, new_run_id
from .served import Served


class AgUiRoutes:
    def __init__(self, served: Served) -> None:
        self._host, self._guards, self._redact, self._claims, self._seal = served
        self.routes = [Route("/ag-ui", self._answer, methods=["POST"])]

    async def _answer(self, request: Request) -> Response:
        user, body = await self._guards.user_and_body(request, dict[str, Any])
        try:
            asked = from_run_input(body, seal=self._seal.narrowed(name_of(user)))
            authorize = asked.authorize()
        except (MessagesRefused, VerdictRefused) as refused:
            raise HTTPException(422, str(refused)) from refused
        run_id = new_run_id(user)
        encoder = asked.encoder(redact=self._redact)
        claim = await self._claims.take(user, asked.thread_id, asked.verdicts, authorize)
        run = self._host.new_run(
            run_id,
            asked.conversation,
            authorize=claim,
            user=user,
            data=asked.data,
            instructions=asked.instructions,
            client_tools=asked.tools,
        )
        return await claim.held_by(self._host.answer(run, encoder, headers={RUN_ID: run_id}))
