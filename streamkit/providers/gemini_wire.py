"""What Gemini streams: the fields that are read, and what its counts mean.

Source: the API references of Gemini and Vertex AI, "GenerateContentResponse".
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..items import Usage
from .gemini_calls import Call
from .odd_fields import token_count

# What is read of the wire. gc=False: they live for a moment, and hold no cycles. Fields that servers fill in different
# ways are Any. Parts that are neither text nor calls are read from the text of the event, since they go back whole.


class AnswerPart(msgspec.Struct, gc=False, rename="camel"):
    text: Any = None
    thought: Any = None
    thought_signature: Any = None
    function_call: Call | None = None


class Content(msgspec.Struct, gc=False):
    parts: list[AnswerPart] | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: Content | None = None
    finish_reason: Any = None
    index: int | None = None
    finish_message: Any = None
    grounding_metadata: Any = None
    citation_metadata: Any = None
    url_context_metadata: Any = None
    logprobs_result: Any = None


class TokensTold(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: Any = None
    candidates_token_count: Any = None
    thoughts_token_count: Any = None
    cached_content_token_count: Any = None


class Chunk(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[Candidate] | None = None
    usage_metadata: TokensTold | None = None
    prompt_feedback: Any = None
    error: Any = None
    response_id: Any = None  # this one and the next only tell a chunk from what is none
    model_version: Any = None


KEPT_UNREAD = {
    "grounding_metadata": "groundingMetadata",
    "citation_metadata": "citationMetadata",
    "url_context_metadata": "urlContextMetadata",
    "logprobs_result": "logprobsResult",
}


def parts_of(candidate: Candidate) -> list[AnswerPart]:
    return (candidate.content.parts if candidate.content is not None else None) or []


def usage_of(told: TokensTold) -> Usage:
    thoughts = token_count(told.thoughts_token_count)
    written = token_count(told.candidates_token_count) + thoughts
    return Usage(token_count(told.prompt_token_count), written, token_count(told.cached_content_token_count), thoughts)
