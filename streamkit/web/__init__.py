"""Runs behind HTTP: `app` serves them, `FlowResponse` is one of them in a route of your own."""

from .application import WebApp, app
from .requests import RunRequest
from .response import FlowResponse

__all__ = ["FlowResponse", "RunRequest", "WebApp", "app"]
