"""The decoders by the name of their dialect: for programs that are told from outside what a body is."""

from __future__ import annotations

from collections.abc import Callable

from .anthropic_decoder import AnthropicDecoder
from .gemini_decoder import GeminiDecoder, GeminiJsonArrayDecoder
from .model import Decoder
from .ollama_decoder import OllamaDecoder
from .openai_chat_decoder import OpenAIChatDecoder
from .openai_responses_decoder import OpenAIResponsesDecoder

DECODERS: dict[str, Callable[[], Decoder]] = {
    "openai-chat": OpenAIChatDecoder,
    "openai-responses": OpenAIResponsesDecoder,
    "anthropic": AnthropicDecoder,
    "gemini": GeminiDecoder,
    "gemini-json-array": GeminiJsonArrayDecoder,
    "ollama": OllamaDecoder,
}
