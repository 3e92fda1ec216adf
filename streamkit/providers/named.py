"""A model by one name, such as `anthropic:NAME`: for programs that are told their model from outside."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Unpack

import msgspec

from ..errors import DefinitionError
from .model import Model
from .options import HttpOptions


class ModelOptions(HttpOptions, total=False):
    """The keyword arguments that every factory of a model takes."""

    base_url: str
    """Of the server, if it is another one than the provider's own."""
    api_key: str | None
    """None, or left out: from the environment, when a turn is run."""


class ChatServer(msgspec.Struct, frozen=True):
    """A well-known server of chat completions, and the environment variable with its key."""

    base_url: str
    key_variable: str


DIALECTS = {
    "openai": "openai_responses",
    "openai-responses": "openai_responses",
    "openai-chat": "openai_chat",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "google": "gemini",
    "ollama": "ollama",
}
"""Providers, and the module, and in it the factory, that speaks with each. It is imported when it is asked for."""

CHAT_SERVERS = {
    "deepseek": ChatServer("https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "groq": ChatServer("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ChatServer("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "openrouter": ChatServer("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": ChatServer("https://api.together.ai/v1", "TOGETHER_API_KEY"),
    "xai": ChatServer("https://api.x.ai/v1", "XAI_API_KEY"),
}


def model(name: str, **options: Unpack[ModelOptions]) -> Model:
    """The model of a name, `PROVIDER:MODEL`. May be used from any event loop; there is nothing to close.

    PROVIDER: one of DIALECTS or CHAT_SERVERS; `openai` speaks the Responses API, `openai-chat` chat completions. MODEL:
    as the provider calls it. options: see ModelOptions; what only one dialect knows is given to its own factory.

    Raises DefinitionError for a name without a provider that is known. A turn raises a ModelError.
    """
    provider, _, model_name = name.partition(":")
    if model_name and provider in DIALECTS:
        make: Callable[..., Model] = getattr(import_module(f".{DIALECTS[provider]}", __package__), DIALECTS[provider])
        return make(model_name, **options)
    if model_name and provider in CHAT_SERVERS:
        from .openai_chat import encode_for, openai_chat  # noqa: PLC0415 - as all dialects: when it is asked for

        server = CHAT_SERVERS[provider]
        encode = encode_for(server.base_url)  # also where something stands between it and us
        options.setdefault("base_url", server.base_url)
        return openai_chat(model_name, key_variable=server.key_variable, encode=encode, **options)
    known = ", ".join([*DIALECTS, *CHAT_SERVERS])
    raise DefinitionError(f"{name!r} is not a model: write PROVIDER:MODEL, with one of these providers: {known}")
