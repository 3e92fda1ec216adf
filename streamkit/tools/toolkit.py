"""`Toolkit`: the tools of a run by their exact names. Checks calls, and lets tools hear how their input is written."""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from ..errors import DefinitionError, InvalidCall, InvalidInput, ToolError, words_of
from ..flows.flow import Flow
from ..items import ToolCall, ToolSpec
from ..listening import listen
from ..shapes.mismatch import shortened
from ..tool_events import Failure, FailureKind
from ..turns import TurnEvent
from .arguments import parse
from .tool import Tool

R = TypeVar("R")

logger = logging.getLogger("streamkit")

_NEVER_CHANGES = {str, int, float, bool, type(None)}


class ValidCall(msgspec.Struct, frozen=True, eq=False):
    """A call that fits its tool.

    arguments: decoded, by the name of the parameter; defaults filled in, unless a JSON Schema is all there is.
    """

    call: ToolCall
    tool: Tool[..., Any]
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        """Of the tool."""
        return self.tool.name

    @property
    def plain_arguments(self) -> dict[str, Any]:
        """The arguments as events and records hold them: what msgspec cannot write, such as a model of pydantic, is a
        tree of JSON.
        """
        return self.tool.plain(self.arguments)

    def with_own_arguments(self) -> ValidCall:
        """The call with arguments that the tool may change; those of this one stay what they were."""
        if all(type(value) in _NEVER_CHANGES for value in self.arguments.values()):
            return self
        return ValidCall(self.call, self.tool, copy.deepcopy(self.arguments))


class Toolkit:
    """Tools by exact name. Never changed: each method gives another toolkit.

    Raises DefinitionError for a name that comes twice, and for what is not a tool.
    """

    def __init__(self, *tools: Tool[..., Any]) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        self._disabled: dict[str, str] = {}
        for tool in tools:
            if isinstance(tool, list | tuple | set | Toolkit):
                raise DefinitionError("the tools are given one by one: Toolkit(*tools)")
            if not isinstance(tool, Tool):
                raise DefinitionError(f"{tool!r} is not a tool: decorate it with @tool or @streaming_tool")
            if tool.name in self._tools:
                raise DefinitionError(
                    f"tool {tool.name!r} is already in this toolkit: give one of the two another name"
                )
            self._tools[tool.name] = tool

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told of the tools, in the order in which they were given; disabled ones are not offered."""
        return tuple(tool.spec for tool in self._tools.values() if tool.name not in self._disabled)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __getitem__(self, name: str) -> Tool[..., Any]:
        return self._tools[name]

    def __repr__(self) -> str:
        return f"<Toolkit {', '.join(self._tools) or 'without tools'}>"

    def only(self, *names: str) -> Toolkit:
        """The toolkit with these tools alone."""
        self._check_known(names)
        return self._with({name: tool for name, tool in self._tools.items() if name in names}, self._disabled)

    def without(self, *names: str) -> Toolkit:
        """The toolkit without these tools."""
        self._check_known(names)
        return self._with({name: tool for name, tool in self._tools.items() if name not in names}, self._disabled)

    def disabled(self, name: str, why: str) -> Toolkit:
        """The toolkit in which this tool is not offered to the model, and a call of it fails with this reason."""
        self._check_known((name,))
        return self._with(self._tools, {**self._disabled, name: why})

    def prefixed(self, prefix: str) -> Toolkit:
        """The toolkit in which each name begins with the prefix."""
        tools = [dataclasses.replace(tool, name=prefix + tool.name) for tool in self._tools.values()]
        disabled = {prefix + name: why for name, why in self._disabled.items()}
        return self._with({tool.name: tool for tool in tools}, disabled)

    def __or__(self, other: Toolkit) -> Toolkit:
        """The tools of both; raises DefinitionError where they share a name."""
        if isinstance(other, Tool):
            raise DefinitionError(f"{other!r} is a tool: write toolkit | Toolkit({other.name})")
        joined = Toolkit(*self, *other)
        joined._disabled = {**self._disabled, **other._disabled}
        return joined

    def _with(self, tools: Mapping[str, Tool[..., Any]], disabled: Mapping[str, str]) -> Toolkit:
        made = Toolkit(*tools.values())
        made._disabled = {name: why for name, why in disabled.items() if name in tools}
        return made

    def _check_known(self, names: tuple[str, ...]) -> None:
        if unknown := [name for name in names if name not in self._tools]:
            raise DefinitionError(f"{self!r} has no tool {', '.join(unknown)}")

    def validate(self, call: ToolCall) -> ValidCall:
        """The call with its tool and its decoded arguments: strict JSON, an object, the schema, then the tool's
        `check`. The plain text of a custom call goes to the one field of the tool that takes text.

        Raises InvalidCall, whose `failure` can be sent back to the model: unknown_tool, disabled_tool or invalid_input.
        """
        if call.problem is not None:
            raise _invalid(call, "invalid_input", _told_problem(call, call.problem))
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self.names) or "none"
            raise _invalid(call, "unknown_tool", f"There is no tool {_name(call)}. The tools are: {known}.")
        if (why := self._disabled.get(call.name)) is not None:
            raise _invalid(call, "disabled_tool", f"{call.name} cannot be used now: {why}")
        decode = tool.take_plain_text if call.custom else tool.decode
        return _checked(call, tool, lambda: decode(call.arguments))

    def revalidate(self, valid: ValidCall, arguments: Mapping[str, Any]) -> ValidCall:
        """The same call with other arguments, checked like those of the model. Raises InvalidCall."""
        return _checked(valid.call, valid.tool, lambda: valid.tool.convert(arguments))

    def listen(self, flow: Flow[TurnEvent, R]) -> Flow[TurnEvent, R]:
        """The same turn; each tool with `on_input` gets the events of its calls as they are written, even when awaited.

        The hook is awaited for each event in order, before the consumer gets the event; what it raises is logged. It
        gets Abandoned even when the consumer is gone, and then has half a second.
        """
        hooks = {tool.name: tool.on_input for tool in self if tool.on_input is not None}
        return listen(flow, hooks) if hooks else flow


def _invalid(call: ToolCall, kind: FailureKind, message: str) -> InvalidCall:
    return InvalidCall(Failure(call.call_id, call.name or "unnamed", kind, message))


def _told_problem(call: ToolCall, problem: str) -> str:
    """What the model reads of a call that cannot run: where its text stops being JSON, if that is the problem."""
    if not call.name:
        return problem
    if not call.custom:  # the text of which is plain
        try:
            parse(call.arguments)
        except (InvalidInput, RecursionError) as error:
            problem = str(error) if isinstance(error, InvalidInput) else problem
    return f"The call of {_name(call)} did not run: {problem}"


def _name(call: ToolCall) -> str:
    """A model may write anything for a name."""
    return shortened(call.name, 100)


def _checked(call: ToolCall, tool: Tool[..., Any], decode: Callable[[], dict[str, Any]]) -> ValidCall:
    try:
        arguments = decode()
        if tool.check is not None and (answer := tool.check(**arguments)) is not None:
            # A check that answers False would be no guard at all.
            raise TypeError(f"check= of {tool.name} returned {answer!r}: it raises ToolError, and returns nothing")
    except (InvalidInput, ToolError, ValueError) as error:
        why = words_of(error) or "bad arguments"
        raise _invalid(call, "invalid_input", f"The call of {tool.name} did not run: {why}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of a class or a check of the user; its message is not meant for the model
        logger.warning("the arguments of a call of %s could not be checked", tool.name, exc_info=error)
        raise _invalid(call, "invalid_input", f"The call of {tool.name} did not run: bad arguments") from error
    return ValidCall(call, tool, arguments)


def check_toolkit_given(toolkit: object) -> None:
    """Raise TypeError where what stands for a toolkit is none, such as a list of tools."""
    if not isinstance(toolkit, Toolkit):
        raise TypeError(f"toolkit is a Toolkit, such as Toolkit(search, read), not a {type(toolkit).__name__}")
