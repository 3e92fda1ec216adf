"""The official SDK of MCP, as far as it is used here. Importing it takes a second: nothing else in streamkit does."""

from __future__ import annotations

try:
    import mcp_types as types
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server import Server, ServerRequestContext
    from mcp.server.stdio import stdio_server
    from mcp.shared._httpx_utils import create_mcp_http_client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.shared.exceptions import MCPError
    from mcp.shared.message import SessionMessage
    from mcp_types import methods
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as missing:
    raise ImportError("to speak MCP install its SDK: pip install 'streamkit-tools[mcp]'") from missing

__all__ = [
    "MODERN_PROTOCOL_VERSIONS",
    "Client",
    "MCPError",
    "ProgressFnT",
    "Server",
    "ServerRequestContext",
    "SessionMessage",
    "StdioServerParameters",
    "create_mcp_http_client",
    "methods",
    "stdio_client",
    "stdio_server",
    "streamable_http_client",
    "types",
]
