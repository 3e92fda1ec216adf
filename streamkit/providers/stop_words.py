"""The words in which servers say why a turn has ended, and what they mean.

Each dialect has its own; but a server that stands between passes on those of the model behind it, in capitals or not.
Taken for a word that is not known, such a one would let the calls of a cut turn run. So all dialects read all of them.
Source: the API references of the dialects; the words of vLLM, SGLang, TGI, Cohere, Bedrock and GLM.
"""

from __future__ import annotations

from ..items import StopReason

_WORDS: dict[StopReason, str] = {
    "stop": "stop eos eos_token end_turn stop_sequence complete",
    "tool_calls": "tool_calls tool_call tool_use function_call",
    "length": """length max_tokens max_output_tokens model_length context_length_exceeded error_limit
        model_context_window_exceeded""",
    "content_filter": """content_filter content_filtered safety recitation language blocklist prohibited_content spii
        model_armor image_safety image_prohibited_content image_recitation guardrail_intervened sensitive
        error_toxic""",
    "refusal": "refusal",
    "pause": "pause_turn compaction",  # at the latter the server made room, and goes on when it is asked again
    "error": """error insufficient_system_resource abort aborted cancelled canceled user_cancel timeout
        network_error""",
}
STOP_REASONS: dict[str, StopReason] = {word: reason for reason, words in _WORDS.items() for word in words.split()}

_REASONS_OF_CUTS = ("length", "content_filter", "refusal")


def reason_of(word: str | None) -> StopReason:
    return STOP_REASONS.get(word.lower(), "unknown") if word else "unknown"


def graver(word: str | None, later: str) -> str:
    """Which of two reasons to stop counts: the later, unless the one before was worse. What was cut stays cut."""
    return later if word is None or gravity(later) >= gravity(word) else word


def gravity(word: str | None) -> int:
    """0 of an end that may be trusted, 1 of a cut, 2 of a failure."""
    reason = reason_of(word)
    return 2 if reason == "error" else int(reason in _REASONS_OF_CUTS)
