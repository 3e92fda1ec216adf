"""A server on stdio that ends its process in the middle of a call, or says what cannot be read.

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
NAMES = ("die", "hang", "pid", "bytes", "halved", "garbled", "deep")
TOOLS = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]}


def answer(message: dict[str, Any]) -> Any:
    match message["method"], message.get("params", {}).get("name"):
        case "initialize", _:
            return INITIALIZED
        case "tools/list", _:
            return TOOLS
        case "tools/call", "die":
            os.write(2, b"first\nlast w\xffrds")
            os._exit(1)
        case "tools/call", "pid" | "bytes" | "halved" as name:
            texts = {"pid": str(os.getpid()), "bytes": "half of caf\udcc3", "halved": "half of a smile \ud83d"}
            return {"content": [{"type": "text", "text": texts[name]}]}
        case "tools/call", "garbled":
            return "no object"
        case "tools/call", "deep":
            return {"content": [], "structuredContent": {"id": "deep"}}
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
        written = written.replace("\ud83d", "\\ud83d")  # as programs in JavaScript write it
        written = written.replace('"deep"}', '"\\"", "a": ' + "[" * 100_000 + "]" * 100_000 + "}")
        sys.stdout.buffer.write(written.encode(errors="surrogateescape"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
