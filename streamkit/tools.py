"""`Tool`: a function that a model may call, with what the model is told of it and how it wants to be run.

A tool is a record and stays callable as the function it was made of. Mostly it is made by a decorator; one that is only
known at run time is made as the record itself. Nothing here runs a call: that is the executor's business.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec
from msgspec.structs import FieldInfo, asdict

from .arguments import read_text, read_tree
from .errors import DefinitionError, FlowError, InvalidInput
from .items import ToolSpec
from .reducers import Reducer
from .schema import json_schema
from .signatures import certainly_gives_no_events, definition, needs_thread, yields
from .sinks import Sink
from .turns import ToolInputEvent

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
E_contra = TypeVar("E_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)
X_co = TypeVar("X_co", covariant=True)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider takes
_DOES_NOT_DECODE = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)


class ToolContext(msgspec.Struct, Generic[X_co], frozen=True, eq=False):
    """What a running tool may know of its call.

    execution_id: names this execution for good, over restarts too; an idempotency key. attempt: from 1. context: what
    `execute_all(context=…)` was given; it is never written down.
    """

    execution_id: str
    call_id: str
    turn_id: str
    tool: str
    attempt: int
    context: X_co


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Tool(Generic[P, R_co]):
    """A function that a model may call: a coroutine function, a plain function, or one that returns a Flow.

    input: the arguments of a call decode into it, and the function gets its fields by name.
    takes_context, takes_sink: a ToolContext, then a Sink, come before them. What the function sends is shown, what it
    returns is the value.
    on_input: hears how the model writes a call; a plain or async function of one ToolInputEvent.
    check: rules that a schema cannot say; a plain function of the arguments by name, which raises ToolError or
    ValueError with a sentence for the model. It runs in the event loop; what has to wait belongs to `authorize`.
    serial: calls that share this key run one after another.
    timeout_seconds, idle_timeout_seconds: for the whole call, and until its next event.
    spec: what the model is told. in_thread: the function is plain and may block, so a worker thread has to call it.

    Raises DefinitionError, with the fix, for what cannot work.
    """

    name: str
    description: str
    input: type[msgspec.Struct]
    function: Callable[P, R_co]
    takes_context: bool = False
    takes_sink: bool = False
    on_input: Callable[[ToolInputEvent], object] | None = None
    check: Callable[..., object] | None = None
    serial: str | None = None
    timeout_seconds: float | None = None
    idle_timeout_seconds: float | None = None
    spec: ToolSpec = field(init=False)
    in_thread: bool = field(init=False)
    _decode: Callable[[str], msgspec.Struct] = field(init=False)

    def __post_init__(self) -> None:
        _check_words(self)
        _check_limits(self)
        made = self.__dict__  # the way around `frozen`
        made["spec"] = ToolSpec(self.name, self.description, _parameters(self))
        _check_functions(self)
        made["in_thread"] = needs_thread(self.function)
        made["_decode"] = msgspec.json.Decoder(self.input).decode
        named = definition(self.function)  # for help(), and `__wrapped__` for inspect.signature()
        made.update((each, getattr(named, each)) for each in functools.WRAPPER_ASSIGNMENTS if hasattr(named, each))
        made["__wrapped__"] = self.function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def start(self, context: ToolContext[Any], out: Sink[Any], arguments: dict[str, Any]) -> Any:
        """What a call of the function gives: a coroutine, a generator, a Flow or a value; nothing is awaited here."""
        function: Callable[..., Any] = self.function
        if self.takes_sink:
            return function(context, out, **arguments) if self.takes_context else function(out, **arguments)
        return function(context, **arguments) if self.takes_context else function(**arguments)

    def decode(self, text: str) -> dict[str, Any]:
        """The arguments that a model wrote, as the function takes them: typed, by name, with all defaults.

        Raises InvalidInput for what is not strict JSON, not an object, or does not fit; the message is for the model.
        """
        try:
            return asdict(self._decode(text))
        except _DOES_NOT_DECODE:
            pass
        return asdict(read_text(self.input, text))

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same from arguments that are no text: values of JSON, or what can be written as such."""
        try:
            tree = msgspec.to_builtins(arguments, str_keys=True)
        except TypeError as error:
            raise InvalidInput(f"the arguments cannot be written as JSON: {error}") from error
        return asdict(read_tree(self.input, tree))

    def __repr__(self) -> str:
        fields = ", ".join(map(_shown, msgspec.structs.fields(self.input)))
        return f"<{type(self).__name__} {self.name}({fields})>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StreamingTool(Tool[P, R_co], Generic[P, R_co, E_contra, V_co]):
    """A tool whose value a reducer makes of its events: those it yields, sends to its sink, or those of its Flow.

    The events are shown to whoever watches. What else the function returns is dropped.
    """

    reducer: Reducer[E_contra, Any, V_co]


_sink: ContextVar[Sink[Any]] = ContextVar("streamkit_sink")


def current_sink() -> Sink[Any]:
    """The sink of the tool call that runs here, for helpers called deep inside it, in its tasks and its threads.

    Raises FlowError outside of any tool call.
    """
    try:
        return _sink.get()
    except LookupError:
        raise FlowError("current_sink() is known only while a tool runs; elsewhere hand the sink down") from None


def use_sink(sink: Sink[Any]) -> None:
    """From here on `current_sink()` is this one, in this task. For whoever gives a call a task of its own."""
    _sink.set(sink)


def _check_words(tool: Tool[..., Any]) -> None:
    if not (isinstance(tool.name, str) and _NAME.fullmatch(tool.name)):
        raise DefinitionError(
            f"tool {tool.name!r}: providers take names of 1 to 64 letters, digits, _ and -; give another with name="
        )
    if not tool.description.strip():
        raise DefinitionError(
            f"tool {tool.name!r}: a model must be told what it does: write a docstring, or give description="
        )


def _check_limits(tool: Tool[..., Any]) -> None:
    if tool.serial is not None and not (isinstance(tool.serial, str) and tool.serial):
        raise DefinitionError(f"tool {tool.name!r}: serial is the name that calls share, such as serial='files'")
    for name in ("timeout_seconds", "idle_timeout_seconds"):
        seconds = getattr(tool, name)
        if seconds is not None and not (type(seconds) in (int, float) and seconds > 0):
            raise DefinitionError(f"tool {tool.name!r}: {name} is {seconds!r}, and must be more than 0, or None")


def _parameters(tool: Tool[..., Any]) -> dict[str, Any]:
    try:
        schema = json_schema(tool.input)
    except Exception as error:
        raise DefinitionError(
            f"tool {tool.name!r}: input must be a msgspec Struct that JSON Schema can describe ({error})"
        ) from error
    if schema.get("type") != "object":
        raise DefinitionError(f"tool {tool.name!r}: its input must be written as an object, so without array_like")
    return schema


def _check_functions(tool: Tool[..., Any]) -> None:
    what, fields = f"tool {tool.name!r}", tool.input.__struct_fields__
    if not callable(tool.function) or isinstance(tool.function, Tool):
        raise DefinitionError(f"{what}: made of {tool.function!r}; a tool is made of a function")
    _check_takes(
        tool.function,
        [None] * (tool.takes_context + tool.takes_sink),
        fields,
        f"{what}: its function cannot be called with its input (takes_context=, takes_sink= say what comes before)",
    )
    if tool.check is not None:
        if inspect.iscoroutinefunction(tool.check):
            raise DefinitionError(f"{what}: check= takes a plain function; what has to wait belongs to authorize=")
        _check_takes(tool.check, [], fields, f"{what}: check= must take the arguments of the tool by name")
    if tool.on_input is not None:
        _check_takes(tool.on_input, [None], (), f"{what}: on_input= must take one ToolInputEvent")
    _check_events(tool, what)


def _check_events(tool: Tool[..., Any], what: str) -> None:
    """A tool that yields needs a reducer; a tool with a reducer needs events."""
    if not isinstance(tool, StreamingTool):
        if yields(tool.function):
            raise DefinitionError(f"{what}: it yields, so use @streaming_tool with finalize= or reduce=")
    elif not isinstance(tool.reducer, Reducer):
        raise DefinitionError(f"{what}: reduce= takes a Reducer, such as collect() or last(Progress)")
    elif certainly_gives_no_events(tool.function) and not tool.takes_sink:
        raise DefinitionError(
            f"{what}: nothing it does can be reduced: let it yield, or take a Sink first, or use @tool"
        )


def _check_takes(function: Callable[..., Any], before: list[None], fields: Sequence[str], message: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:  # written in C, without a signature, or nothing to call at all
        if callable(function):
            return
        raise DefinitionError(message) from error
    try:
        signature.bind(*before, **dict.fromkeys(fields))
    except TypeError as error:
        raise DefinitionError(f"{message}: {error}") from error


def _shown(field: FieldInfo) -> str:
    if field.required:
        return field.name
    if field.default is msgspec.NODEFAULT:
        return f"{field.name}=…"
    default = repr(field.default)
    return f"{field.name}={default if len(default) <= 20 else default[:19] + '…'}"
