"""`check_history`: would a provider take the next request with this history?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ..items import History, Item, Message, ToolCall, ToolOutput, user
from ..providers.anthropic import encode_request as encode_anthropic
from ..providers.gemini import NO_SIGNATURE
from ..providers.gemini import encode_request as encode_gemini
from ..providers.ollama import encode_request as encode_ollama
from ..providers.openai_chat import encode_mistral_request, encode_openai_request, encode_thinking_request
from ..providers.openai_chat import encode_request as encode_chat
from ..providers.openai_responses import encode_request as encode_responses
from ..turns import TurnRequest
from . import anthropic_legality, gemini_legality, ollama_legality, openai_legality
from .legality import demand, is_object

GO_ON = user("Go on.")

Encode = Callable[[TurnRequest, str], dict[str, Any]]
Check = Callable[[dict[str, Any]], None]
Kept = Callable[[History, dict[str, Any]], None]


def check_history(history: Iterable[Item], dialect: str) -> None:
    """Raise IllegalHistory, an AssertionError, with the place and the rule, where a provider refuses a history.

    dialect: one of `openai-chat` (most servers, OpenAI itself, Mistral, DeepSeek and Moonshot), `openai-responses`,
    `anthropic`, `gemini` (models that sign their calls, and older ones), `ollama`.

    First the rules that hold for all: `check_items`. Then the history is encoded as the dialect does it, alone and with
    a message of the person behind it, and the bodies are held to what the provider documents or is known to refuse.
    """
    if dialect not in _REQUESTS:
        raise ValueError(f"there is no dialect {dialect!r}; known are {', '.join(_REQUESTS)}")
    items = tuple(history)
    check_items(items)
    for encode, model, check, kept in _REQUESTS[dialect]:
        for asked in filter(None, (items, (*items, GO_ON))):
            body = encode(TurnRequest(asked), model)
            check(body)
            if kept is not None:
                kept(items, body)


_gemini_signatures = partial(gemini_legality.check_signatures_kept, not_signed=NO_SIGNATURE)
_GEMINI: tuple[tuple[Encode, str, Check, Kept | None], ...] = (
    (encode_gemini, "gemini-3-pro", partial(gemini_legality.check_contents, signs=True), _gemini_signatures),
    (encode_gemini, "gemini-2.5-flash", partial(gemini_legality.check_contents, signs=False), _gemini_signatures),
)
_REQUESTS: dict[str, tuple[tuple[Encode, str, Check, Kept | None], ...]] = {
    "openai-chat": (
        (encode_chat, "m", openai_legality.check_chat, None),
        (encode_openai_request, "m", partial(openai_legality.check_chat, rules=openai_legality.OPENAI), None),
        (encode_mistral_request, "m", partial(openai_legality.check_chat, rules=openai_legality.MISTRAL), None),
        (encode_thinking_request, "m", partial(openai_legality.check_chat, rules=openai_legality.THINKING), None),
    ),
    "openai-responses": (
        (encode_responses, "m", openai_legality.check_responses, openai_legality.check_responses_kept),
    ),
    "anthropic": ((encode_anthropic, "m", anthropic_legality.check_messages, anthropic_legality.check_thoughts_kept),),
    "gemini": _GEMINI,
    "gemini-json-array": _GEMINI,
    "ollama": ((encode_ollama, "m", ollama_legality.check_chat, None),),
}


def check_items(history: History) -> None:
    """Raise IllegalHistory where a history breaks a rule of all providers.

    Each call has one result, right behind its turn, in the order of the calls; both have a name and an id, and the
    arguments are one JSON object, unless they are plain text. What the model said is not blank.
    """
    waiting: list[ToolCall] = []
    is_answered = False  # results stand before this item
    said: list[Item] = []  # by the model, until now
    for number, item in enumerate(history):
        place = f"history[{number}]"
        if type(item) is ToolOutput:
            _check_output(item, waiting, place)
            waiting.pop(0)
            is_answered, said = True, []
            continue
        is_of_model = type(item) is not Message or item.role == "assistant"
        is_early = waiting and (is_answered or not is_of_model)
        demand(not is_early, place, f"the calls {[call.call_id for call in waiting]} have no result")
        is_answered = False
        if type(item) is ToolCall:
            _check_call(item, waiting, place)
            waiting.append(item)
        if is_of_model:
            said.append(item)
        else:
            _check_said(said, place)
            said = []
    demand(not waiting, "the end", f"the calls {[call.call_id for call in waiting]} have no result")
    _check_said(said, "the end")


def _check_output(output: ToolOutput, waiting: list[ToolCall], place: str) -> None:
    demand(waiting, place, f"the result of {output.call_id} has no call before it, or is its second one")
    call = waiting[0]
    demand(output.call_id == call.call_id, place, f"the next result is that of {call.call_id}, not of {output.call_id}")
    same = (output.tool, output.custom) == (call.name, call.custom)
    demand(same, place, f"the result is of another kind than the call {call.call_id} of {call.name}")


def _check_call(call: ToolCall, waiting: list[ToolCall], place: str) -> None:
    demand(call.call_id and call.name, place, "a call without an id, or without a name")
    demand(all(other.call_id != call.call_id for other in waiting), place, f"two calls have the id {call.call_id}")
    demand(call.custom or is_object(call.arguments), place, f"the arguments of {call.call_id} are not a JSON object")


def _check_said(said: list[Item], place: str) -> None:
    """What goes back unread counts: a text without words may carry a signature."""
    texts = [item for item in said if type(item) is Message and item.opaque is None]
    others = [item for item in said if not (type(item) is Message and item.opaque is None)]
    says = others or not texts or any(item.text.strip() for item in texts)
    demand(says, place, "a message of the model before it is blank")
