"""`python -m recipes.web_chat [--model local|scripted|PROVIDER:NAME] [--port NUMBER] [--folder DIR]`"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import httpx2

try:
    import uvicorn
except ImportError:
    sys.exit("streamkit: the page is served by uvicorn: pip install '.[web]'")

from streamkit import StreamkitError
from streamkit.local import open_model

from .recipe import chat, site
from .scripted import Scripted


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m recipes.web_chat", description="Watch and steer runs on a web page.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    parser.add_argument("--port", type=int, default=8000, help="on 127.0.0.1; 0 takes a free one (default: 8000)")
    parser.add_argument("--folder", type=Path, help="where the tools write; by default a temporary folder")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    with (
        TemporaryDirectory(prefix="streamkit-") as temporary,
        listen(options.port) as listening,
    ):
        folder, url = options.folder or Path(temporary), f"http://127.0.0.1:{listening.getsockname()[1]}"
        folder.mkdir(parents=True, exist_ok=True)
        async with (
            open_model(options.model, scripted=Scripted) as model,
            httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False) as archive,
        ):
            print(f"{url} (Ctrl-C ends it)", flush=True)
            # A stream that somebody still watches does not keep the program from its end.
            config = uvicorn.Config(
                site(chat(model, folder, archive)), log_level="critical", access_log=False, timeout_graceful_shutdown=1
            )
            await uvicorn.Server(config).serve([listening])


def listen(port: int) -> socket.socket:
    """A socket whose connections send each piece at once: else the kernel holds it back until the last one is taken."""
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise OSError(f"port {port} of 127.0.0.1 cannot be had: {why}; --port 0 takes a free one") from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def run() -> int:
    options = parse()
    code = 0
    try:
        anyio.run(main, options)
    except* (StreamkitError, OSError) as failed:
        print(f"streamkit: {failed.exceptions[0]}", file=sys.stderr)
        code = 1
    except* KeyboardInterrupt:
        code = 130
    return code


if __name__ == "__main__":
    sys.exit(run())
