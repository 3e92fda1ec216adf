"""What Ollama refuses in a request, or cannot put before its model, told by the body alone.

Sources: the API reference of Ollama, "Generate a chat message"; the types of its Go package `api`, by which a body is
decoded ("cannot unmarshal string into Go struct field ChatRequest.messages of type api.ToolCallFunctionArguments").
"""

from __future__ import annotations

from .legality import JsonObject, demand, is_said


def check_chat(body: JsonObject) -> None:
    """Raise IllegalHistory where the messages do not fit: roles, texts, calls with objects, results behind them."""
    waiting: list[tuple[str, str]] = []
    for number, message in enumerate(body["messages"]):
        place, role = f"messages[{number}]", message.get("role")
        demand(role in ("system", "user", "assistant", "tool"), place, f"{role!r} is not a role")
        demand(isinstance(message.get("content"), str), place, "the content is a text")
        if role == "tool":
            answered = (message["tool_call_id"], message["tool_name"])
            demand(waiting and waiting[0] == answered, place, f"the result of {answered} does not answer the next call")
            waiting.pop(0)
            continue
        demand(not waiting, place, f"the calls {waiting} have no result right after them")
        if role == "assistant":
            calls = message.get("tool_calls", [])
            demand(is_said(message["content"]) or calls, place, "the model says nothing, and calls nothing")
            for call in calls:
                demand(call["function"]["name"], place, "a call without a name")
                demand(isinstance(call["function"]["arguments"], dict), place, "the arguments are not an object")
            waiting = [(call["id"], call["function"]["name"]) for call in calls]
    demand(not waiting, "the end", f"the calls {waiting} have no result")
