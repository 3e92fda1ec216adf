"""A server on stdio that ends its process in the middle of a call, or breaks a character in two.

Written out, so that it starts at once.
"""

import json
import os
import sys
from typing import Any

INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "dying", "version": "1"},
}
TOOLS = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("die", "hang", "pid", "bytes")]}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    match message["method"], message.get("params", {}).get("name"):
        case "initialize", _:
            return INITIALIZED
        case "tools/list", _:
            return TOOLS
        case "tools/call", "die":
            os.write(2, b"first\nlast w\xffrds")
            os._exit(1)
        case "tools/call", "pid":
            return {"content": [{"type": "text", "text": str(os.getpid())}]}
        case "tools/call", "bytes":
            return {"content": [{"type": "text", "text": "half of caf\udcc3"}]}
        case _:
            return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message["method"] == "server/discover":
            reply = {"error": {"code": -32601, "message": "unknown method"}}
        elif (result := answer(message)) is not None:
            reply = {"result": result}
        else:
            continue
        written = json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}, ensure_ascii=False) + "\n"
        sys.stdout.buffer.write(written.encode(errors="surrogateescape"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
