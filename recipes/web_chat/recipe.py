"""A web page on which a person watches a run and steers it: the runs behind it, and what protects them.

`chat` is the run that a message starts. `site` is the page with the runs of `streamkit.web` behind it; it knows nothing
of these tools, so a program of one's own gives it another `start`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path

import anyio
import httpx2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from streamkit import Conversation, Flow, Model, RunEvent, TurnRequest, converse
from streamkit.journal.memory import memory_journal
from streamkit.web.application import app
from streamkit.web.requests import RunRequest
from streamkit.web.runs import Start

from .tools import TOOLS, Workspace

PAGE = Path(__file__).parent.joinpath("page.html").read_text("utf-8")
ARCHIVE = {"atlas.bin": 12_000_000, "songs.bin": 24_000_000}
PIECE_BYTES = 64 * 1024
BYTES_PER_SECOND = 4_000_000


def chat(model: Model, folder: Path, archive: httpx2.AsyncClient) -> Start:
    """What a message starts."""

    def start(run: RunRequest) -> Flow[RunEvent, Conversation]:
        return converse(
            model,
            TOOLS,
            run.conversation,
            request=TurnRequest((), parallel_calls=True),
            authorize=run.authorize,
            context=Workspace(folder, archive, model, run.authorize, run.running),
            journal=run.journal,
            running=run.running,
        )

    return start


def site(start: Start) -> Starlette:
    """The page at `/`, the runs at `/api`, and at `/archive` what there is to download. For this machine alone."""
    runs = app(start, journal=memory_journal(), resumable=True, fields=True)
    return Starlette(
        routes=[Route("/", _page), Mount("/api", runs), Route("/archive/{file}", _archive)],
        # A page of another site cannot pose as ours by a name of its own that leads to this machine.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        lifespan=runs.lifespan,
    )


async def _page(request: Request) -> Response:
    return HTMLResponse(PAGE, headers=HEADERS)


def _hashes(tag: str) -> str:
    """The elements of the page with this tag, as a policy names them: nothing else runs."""
    found: Iterator[str] = (match[1] for match in re.finditer(f"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL))
    return " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in found)


POLICY = (
    f"default-src 'none'; script-src {_hashes('script')}; style-src {_hashes('style')}; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


async def _archive(request: Request) -> Response:
    size_bytes = ARCHIVE.get(request.path_params["file"])
    if size_bytes is None:
        raise HTTPException(404)
    return StreamingResponse(_pieces(size_bytes), headers={"content-length": str(size_bytes)})


async def _pieces(size_bytes: int) -> AsyncIterator[bytes]:
    """No faster than a slow network would be."""
    for start in range(0, size_bytes, PIECE_BYTES):
        await anyio.sleep(PIECE_BYTES / BYTES_PER_SECOND)
        yield bytes(min(PIECE_BYTES, size_bytes - start))
