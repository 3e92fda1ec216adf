"""Tools of MCP servers for models of ours, and tools of ours for clients of MCP."""

from .connection import Connection
from .exchange import Progress
from .serving import serve, server_of

__all__ = ["Connection", "Progress", "serve", "server_of"]
