"""The tools that a server lists, as tools of ours.

What a server says of its tools is its word, and a server may be anybody's. Its hints (read-only, idempotent) can loosen
what we do: run a call again after a crash, spare a person the question. So they count only where the user trusts them.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypedDict

from ..errors import DefinitionError
from ..flows.flow import Flow, Sink
from ..shapes.foreign_schemas import without_patterns
from ..tool_events import Effects
from ..tools.tool import Tool
from .exchange import Progress
from .results import value_of
from .sdk import types

logger = logging.getLogger("streamkit")

Call = Callable[[str, dict[str, Any]], Flow[Progress, types.CallToolResult]]
"""Calls the tool of this name on its server."""

_LONGEST = 64  # what every provider takes


class RemoteToolOptions(TypedDict, total=False):
    """What can be said of all tools of a server at once; see Tool."""

    approval: bool
    serial: str
    timeout_seconds: float
    idle_timeout_seconds: float
    result_limit_bytes: int
    coerce: bool


def tools_of(
    listed: Iterable[types.Tool], call: Call, *, origin: str, prefix: str, trust_hints: bool, options: RemoteToolOptions
) -> Iterator[Tool[..., Any]]:
    """The tools that work here; one whose schema cannot be used is left out, and a line of the log says why."""
    known: dict[str, types.Tool] = {}
    for described in listed:
        if described.execution is not None and described.execution.task_support == "required":
            continue  # it cannot be called; a protocol of its own polls for its result, and is gone since 2026-07-28
        known.setdefault(described.name, described)  # of a name the first one counts
    for described, name in zip(known.values(), legal_names(list(known), prefix), strict=True):
        effects: Effects = "once"
        given = options
        if trust_hints and described.annotations is not None:
            if described.annotations.read_only_hint:
                effects, given = "none", {**options, "approval": False}
            elif described.annotations.idempotent_hint:
                effects = "idempotent"
        try:
            yield Tool(
                name=name,
                description=(described.description or "").strip() or f"{described.name}, a tool of {origin}",
                input=without_patterns(described.input_schema),
                function=_function(described.name, call),
                takes_sink=True,
                origin=origin,
                effects=effects,
                **given,
            )
        except (DefinitionError, RecursionError) as error:
            logger.warning("a tool of the server %s is left out: %s", origin, error)


def legal_names(names: Sequence[str], prefix: str) -> list[str]:
    """For each name one that every provider takes; all differ, and none depends on the order in which they are listed.

    A name that is legal stays as it is behind the prefix. Of others what is not legal becomes `_`; where that is too
    long, empty or not unique, the end of it makes room for a hash of the name.
    """
    wanted = {name: prefix + re.sub(r"[^a-zA-Z0-9_-]", "_", name) for name in names}
    times = Counter(wanted.values())
    legal = {
        name: made
        for name, made in wanted.items()
        if 0 < len(made) <= _LONGEST and (times[made] == 1 or made == prefix + name)
    }
    taken = set(legal.values())
    for name in names:
        if name not in legal:
            made = _hashed(wanted[name], name)
            while made in taken:  # by the name of another tool: no accident
                made = _hashed(wanted[name], made)
            legal[name] = made
            taken.add(made)
    return [legal[name] for name in names]


def _hashed(legal: str, name: str) -> str:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{legal[: _LONGEST - len(digest) - 1]}_{digest}"


def _function(name: str, call: Call) -> Callable[..., Any]:
    async def call_tool(out: Sink[Progress], /, **arguments: Any) -> Any:
        return value_of(await out.forward(call(name, arguments)))

    return call_tool
