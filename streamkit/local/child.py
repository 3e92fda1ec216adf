"""The process that serves the local model: llama.cpp's own HTTP server, for as long as its parent wants it.

Started by its path from `server.py`, so that it imports nothing of the package and starts fast. It is a process of its
own since a native abort takes the whole interpreter along, and since xllamacpp's server has no way to be closed.

stdin: one line of settings as JSON, then nothing; its end ends us. stdout: one line of JSON with the address, as soon
as requests are taken. stderr: what went wrong.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

SLOTS = 4
"""How many turns may be written at once. They share one memory and one thread: more cost nothing, fewer would queue."""

CACHE_MIB = 64
"""For prompts that were read and may come again. llama.cpp would take 8 GiB, some 5 MB with each new prompt."""

QUIET = 1
"""llama.cpp's log level for errors only: one more would let the log grow with every request."""


def main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)  # what native code prints must not get into the answer
    line = sys.stdin.readline()
    if not line:
        return
    end_with_stdin()
    parent = os.getppid()
    try:
        server = start_server(json.loads(line))
    except RuntimeError as error:
        time.sleep(0.1)  # llama.cpp writes its log on a thread of its own, and an exit may overtake its last lines
        sys.exit(str(error))  # without our traceback: the lines above it, llama.cpp's own, say what was wrong
    os.write(answer, json.dumps({"address": server.listening_address}).encode() + b"\n")
    os.close(answer)
    while os.getppid() == parent:  # a process that the parent forked may hold our stdin open when the parent is gone
        time.sleep(1)
    os._exit(0)


def end_with_stdin() -> None:
    """Exit as soon as stdin ends. The parent holds its other end, and the kernel closes that, however the parent ends.

    Not PR_SET_PDEATHSIG: it follows the thread that started us, and trio starts processes from a thread that ends soon.
    """

    def wait() -> None:
        os.read(0, 1)
        os._exit(0)

    if sys.platform == "linux":
        # While the weights are loaded no Python thread runs; this signal's default action ends us all the same.
        import fcntl  # noqa: PLC0415 - there is none on Windows

        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=wait, daemon=True).start()


def start_server(settings: dict[str, Any]) -> Any:
    """The server, when it takes requests. Raises RuntimeError where it cannot start."""
    import xllamacpp  # noqa: PLC0415 - a big library: our end is watched before it is loaded

    params = xllamacpp.CommonParams()
    params.model.path = settings["weights"]
    params.chat_template = settings["chat_template"]
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # a free one
    params.api_keys = [settings["api_key"]]  # else any local program may ask, and any web page that finds the port
    params.n_ctx = settings["context_tokens"]
    params.n_parallel = SLOTS
    params.kv_unified = True
    params.cache_ram_mib = CACHE_MIB
    # Two threads wait for each other at every layer: on a busy machine that is three times slower than one.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.ui = False
    params.verbosity = QUIET
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
