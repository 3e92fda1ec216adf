"""A hand on a run in another program: verdicts and cancels, over our own protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from msgspec import UNSET

from ..errors import NotRunning, RemoteError, VerdictRefused
from .remote_http import RemoteOptions, Server


class Steering:
    """A hand on a run that is driven elsewhere; it is given to `open_remote`, and works from the first event on.

    run_id: None until the server has named the run. number: of the last frame that came of it; with both of them the
    run is picked up later (`watch_remote`), from another process too.

    Each method raises RemoteError where the server says no for another reason than those it names, ConnectionFailed
    where it is not reached.
    """

    def __init__(self) -> None:
        self.run_id: str | None = None
        self.number = 0
        self._server: Server | None = None

    @classmethod
    def of(cls, url: str, run_id: str, **options: Unpack[RemoteOptions]) -> Steering:
        """A hand on a run that somebody else has started, or watches."""
        steering = cls()
        steering.take(Server(url, options), run_id)
        return steering

    def take(self, server: Server, run_id: str) -> None:
        self._server, self.run_id = server, run_id

    async def allow(
        self,
        execution_id: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        value: Any = UNSET,
        always: bool = False,
    ) -> None:
        """See `ApprovalDesk.allow`. Raises VerdictRefused where the verdict cannot be taken."""
        body = {"executionId": execution_id, "allow": True, "arguments": arguments, "value": value, "always": always}
        await self._decide({name: given for name, given in body.items() if given is not UNSET})

    async def deny(self, execution_id: str, reason: str = "the person said no") -> None:
        """reason: the model reads it. Raises VerdictRefused where the verdict cannot be taken."""
        await self._decide({"executionId": execution_id, "allow": False, "reason": reason})

    async def cancel(self, execution_id: str | None = None, reason: str = "the person stopped it") -> None:
        """Cancel one call, or the whole run, which then raises RunStopped. Raises NotRunning where there is none."""
        try:
            await self._post("cancel", {"executionId": execution_id, "reason": reason})
        except RemoteError as error:
            if error.status in (404, 409):
                raise NotRunning(str(error)) from error
            raise

    async def _decide(self, body: dict[str, Any]) -> None:
        try:
            await self._post("verdicts", body)
        except RemoteError as error:
            if error.status == 409:
                raise VerdictRefused(str(error)) from error
            raise

    async def _post(self, what: str, body: dict[str, Any]) -> None:
        if self._server is None:
            raise NotRunning("the run has not begun yet: there is nothing to steer")
        answer = await self._server.ask("POST", f"/runs/{self.run_id}/{what}", body)
        try:
            await answer.read_rest()
        finally:
            await answer.close()
