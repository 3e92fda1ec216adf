"""Runs behind HTTP: `app` serves them, `FlowResponse` is one of them in a route of your own.

A server lets open streams finish before it ends, so give it a limit (`uvicorn --timeout-graceful-shutdown 5`). Then
runs are cancelled and cleaned up, and their streams say so; those of runs that are written down just end, since they
may go on. A socket that you hand to uvicorn yourself wants TCP_NODELAY. Comments keep an idle connection alive, and
headers tell proxies not to buffer (`x-accel-buffering: no`, `no-transform`); for a proxy that cuts idle connections
earlier there is `keepalive_seconds` (15).
"""

from . import extra as extra
from .application import WebApp, app
from .requests import RunRequest
from .response import FlowResponse

__all__ = ["FlowResponse", "RunRequest", "WebApp", "app"]
