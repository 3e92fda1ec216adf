"""What Gemini refuses in a request, told by the body alone.

Sources: the API reference of Gemini, "Content", "FunctionResponse"; its guides "Function calling" and "Thought
signatures"; the refusals that users report ("Please ensure that function call turn comes immediately after a user turn
or after a function response turn", "Please ensure that the number of function response parts is equal to the number of
function call parts of the function call turn", "Function call is missing a thought_signature"). Text beside function
responses is not refused, but the newer models give an empty answer to it, or "Requests ending with a model turn are
not supported".
"""

from __future__ import annotations

from ..items import History
from .legality import JsonObject, check_kept, demand, opaque_of

SIGNATURE = "thoughtSignature"
_ATTRIBUTES = {SIGNATURE, "thought", "videoMetadata", "mediaResolution", "partMetadata"}
"""Of a part, beside what it holds."""


def check_contents(body: JsonObject, *, signs: bool) -> None:
    """Raise IllegalHistory where Gemini refuses the contents.

    signs: whether the model signs its calls, and wants the first of each step back so.
    """
    contents = body["contents"]
    demand(contents, "contents", "there is none")
    calls: list[JsonObject] = []
    role, has_results = "model", False  # of the content before
    for number, content in enumerate(contents):
        place = f"contents[{number}]"
        demand(content["role"] in ("user", "model"), place, f"{content['role']!r} is not a role")
        in_turn = content["role"] != role or (role == "user" and has_results)
        demand(in_turn, place, "user and model speak in turn, the user first; after results the user may go on")
        demand(content["parts"], place, "a content without parts")
        for part in content["parts"]:
            _check_part(part, place)
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        _check_results(results, calls, place)
        demand(not results or len(results) == len(content["parts"]), place, "something else beside results")
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        demand(not calls or content["role"] == "model", place, "a call of the user")
        role, has_results = content["role"], bool(results)
    demand(not calls, "the end", "calls have no responses")
    if signs:
        _check_first_calls(contents)


def _check_part(part: JsonObject, place: str) -> None:
    held = part.keys() - _ATTRIBUTES
    demand(len(held) == 1, place, f"a part holds one thing, not {sorted(held)}")
    empty = part.get("text") == "" and SIGNATURE not in part
    demand(not empty, place, "a text that is empty")
    if "functionCall" in part:
        demand(part["functionCall"].get("name"), place, "a call without a name")
        demand(
            isinstance(part["functionCall"].get("args", {}), dict), place, "the arguments of a call are not an object"
        )
    if "functionResponse" in part:
        demand(isinstance(part["functionResponse"]["response"], dict), place, "a response is not an object")


def _check_results(results: list[JsonObject], calls: list[JsonObject], place: str) -> None:
    demand(len(results) == len(calls), place, f"as many responses as calls, not {len(results)} for {len(calls)}")
    called, answered = ([(each["name"], each.get("id")) for each in told] for told in (calls, results))
    demand(called == answered, place, f"the responses {answered} do not answer the calls {called}, in their order")


def _check_first_calls(contents: list[JsonObject]) -> None:
    """Since the person has spoken, the first call of each step is signed."""
    said = [
        number
        for number, content in enumerate(contents)
        if content["role"] == "user" and not any("functionResponse" in part for part in content["parts"])
    ]
    for number in range(said[-1] if said else 0, len(contents)):
        first = next((part for part in contents[number]["parts"] if "functionCall" in part), {SIGNATURE: ""})
        demand(SIGNATURE in first, f"contents[{number}]", "the first call is not signed")


def check_signatures_kept(history: History, body: JsonObject, not_signed: str) -> None:
    """Signatures go back as they came. not_signed: what stands where there was none."""
    came = [known for item in history if (known := opaque_of(item, "gemini").get(SIGNATURE))]
    sent = [part[SIGNATURE] for content in body["contents"] for part in content["parts"] if SIGNATURE in part]
    check_kept("signatures", [each for each in sent if each != not_signed], came)
