"""The words in which servers say why a turn has ended, and what they mean.

Each dialect has its own; but a server that stands between passes on those of the model behind it, in capitals or not,
and maybe behind a word of its own: Gemini says `content_filter: RECITATION` where it speaks as OpenAI does.
Taken for a word that is not known, such a one would let the calls of a cut turn run. So all dialects read all of them.
Source: the API references of the dialects; the words of vLLM, SGLang, TGI, Cohere, Bedrock, watsonx and GLM.
"""

from __future__ import annotations

from ..items import StopReason

_UNREADABLE_OUTPUT = """malformed_function_call malformed_response unexpected_tool_call too_many_tool_calls
    function_call_filter malformed_tool_use malformed_model_output"""
_WORDS: dict[StopReason, str] = {
    "stop": "stop eos eos_token end_turn stop_sequence complete",
    "tool_calls": "tool_calls tool_call tool_use function_call",
    "length": """length max_tokens max_output_tokens model_length context_length_exceeded error_limit
        model_context_window_exceeded token_limit time_limit""",
    "content_filter": """content_filter content_filtered safety recitation language blocklist prohibited_content spii
        model_armor image_safety image_prohibited_content image_recitation guardrail_intervened sensitive
        error_toxic""",
    "refusal": "refusal",
    "pause": "pause_turn compaction",  # at the latter the server made room, and goes on when it is asked again
    "error": f"""error insufficient_system_resource abort aborted cancelled canceled user_cancel timeout
        network_error missing_thought_signature {_UNREADABLE_OUTPUT}""",
}
STOP_REASONS: dict[str, StopReason] = {word: reason for reason, words in _WORDS.items() for word in words.split()}

_UNREADABLE = frozenset(_UNREADABLE_OUTPUT.split())
_REASONS_OF_CUTS = ("length", "content_filter", "refusal")


def reason_of(word: str | None) -> StopReason:
    return next((STOP_REASONS[part] for part in _parts(word) if part in STOP_REASONS), "unknown")


def tells_unreadable_output(word: str | None) -> bool:
    """Whether it says that the model wrote a call that cannot be read."""
    return not _UNREADABLE.isdisjoint(_parts(word))


def graver(word: str | None, later: str) -> str:
    """Which of two reasons to stop counts: the later, unless the one before was worse. What was cut stays cut."""
    return later if word is None or gravity(later) >= gravity(word) else word


def gravity(word: str | None) -> int:
    """0 of an end that may be trusted, 1 of a cut, 2 of a failure."""
    reason = reason_of(word)
    return 2 if reason == "error" else int(reason in _REASONS_OF_CUTS)


def _parts(word: str | None) -> list[str]:
    return [part.strip() for part in word.lower().split(":")] if word else []
