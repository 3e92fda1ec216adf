"""`Tool`: a function that a model may call, with what the model is told of it and how it wants to be run.

A tool is a record and stays callable as the function it was made of. Mostly it is made by a decorator; one that is only
known at run time is made as the record itself. Nothing here runs a call: that is the executor's business.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

from ..errors import DefinitionError, FlowError
from ..flows.sinks import Sink
from ..items import ToolSpec
from ..tool_events import Effects
from ..turns import ToolInputEvent
from .checks import check_approval, check_effects, check_limits, check_words, takes_other
from .inputs import Input
from .reducers import Reducer
from .signatures import certainly_gives_no_events, check_takes, definition, needs_thread, yields

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
E_contra = TypeVar("E_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)
X_co = TypeVar("X_co", covariant=True)


class ToolContext(msgspec.Struct, Generic[X_co], frozen=True, eq=False):
    """What a running tool may know about its call.

    execution_id: names this execution for good, also after a restart, so it may serve as an idempotency key. attempt:
    from 1. context: what `execute_all(context=…)` was given; it is never written down.
    """

    execution_id: str
    call_id: str
    turn_id: str
    tool: str
    attempt: int
    context: X_co


def _no_body(**arguments: Any) -> Any:
    """Stands for the function of a tool that does nothing by itself."""
    raise DefinitionError("this tool has no body: whoever has the run answers its calls")


no_body: Callable[..., Any] = _no_body


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Tool(Generic[P, R_co]):
    """A function that a model may call: a coroutine function, a plain function, or one that returns a Flow.

    input: what the arguments of a call have to be: a msgspec Struct, a pydantic model, or a JSON Schema of an object
    (extra `schema`). The function gets the fields by name; see `inputs` for what a schema means for it.
    takes_context, takes_sink: a ToolContext, then a Sink, come before the fields. What the function sends is shown;
    what it returns is the value.
    on_input: gets the events of a call while the model writes it; a plain or async function of one ToolInputEvent.
    check: for rules that a schema cannot express; a plain function of the arguments by name, which raises ToolError or
    ValueError with a sentence for the model. It runs in the event loop; if it has to wait, use `authorize` instead.
    serial: calls that share this key run one after another.
    timeout_seconds, idle_timeout_seconds: limits for the whole call, and until its next event; None is no limit.
    result_limit_bytes: how much of the value the model reads: the beginning, and a note; see `large_results`.
    coerce: repair arguments that do not fit if it is clear what was meant; see `coercion`.
    approval: a person has to allow each call; see `ApprovalDesk`. origin: whose tool it is, such as an account or a
    server; the person is told. effects: what a call does to the world. After a crash in the middle of it, a call may
    run again if this is "none" or "idempotent" (the same, however often it runs with one execution id), but not if it
    is "once"; see `Journal`.
    Without a function the tool has no body: whoever has the run answers its calls (`Allow(value=…)`).
    spec: what the model is told. in_thread: the function is plain and may block, so a worker thread has to call it.

    Raises DefinitionError, with the fix, for what cannot work.
    """

    name: str
    description: str
    input: type[Any] | Mapping[str, Any]
    function: Callable[P, R_co] = no_body
    takes_context: bool = False
    takes_sink: bool = False
    on_input: Callable[[ToolInputEvent], object] | None = None
    check: Callable[..., object] | None = None
    serial: str | None = None
    timeout_seconds: float | None = None
    idle_timeout_seconds: float | None = None
    result_limit_bytes: int = 64 * 1024
    coerce: bool = True
    approval: bool = False
    origin: str | None = None
    effects: Effects = "once"
    spec: ToolSpec = field(init=False)
    in_thread: bool = field(init=False)
    _input: Input = field(init=False)

    def __post_init__(self) -> None:
        what = f"tool {self.name!r}"
        check_words(self.name, self.description)
        check_limits(
            what,
            serial=self.serial,
            timeout_seconds=self.timeout_seconds,
            idle_timeout_seconds=self.idle_timeout_seconds,
            result_limit_bytes=self.result_limit_bytes,
        )
        check_approval(what, self.approval, self.origin)
        check_effects(what, self.effects)
        if not callable(self.function) or isinstance(self.function, Tool):
            raise DefinitionError(f"{what}: made of {self.function!r}; a tool is made of a function")
        input = Input(self.input, what, takes_other=takes_other(self.function), coerce=self.coerce)
        _check_functions(self, input, what)
        _check_events(self, what)
        made = self.__dict__  # the way around `frozen`
        made["_input"] = input
        made["decode"] = input.decode  # the method below says what it does; without it a short text is read faster
        made["spec"] = ToolSpec(self.name, self.description, input.schema)
        made["in_thread"] = self.has_body and needs_thread(self.function)
        named = definition(self.function)  # for help(), and `__wrapped__` for inspect.signature()
        made.update((each, getattr(named, each)) for each in functools.WRAPPER_ASSIGNMENTS if hasattr(named, each))
        made["__wrapped__"] = self.function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    @property
    def has_body(self) -> bool:
        return self.function is not no_body

    def start(self, context: ToolContext[Any], out: Sink[Any], arguments: dict[str, Any]) -> Any:
        """What a call of the function gives: a coroutine, a generator, a Flow or a value; nothing is awaited here."""
        function: Callable[..., Any] = self.function
        if self.takes_sink:
            return function(context, out, **arguments) if self.takes_context else function(out, **arguments)
        return function(context, **arguments) if self.takes_context else function(**arguments)

    def decode(self, text: str) -> dict[str, Any]:
        """The arguments that a model wrote, as the function takes them: by name.

        Raises InvalidInput for what is not strict JSON, not an object, or does not fit; the message is for the model.
        """
        return self._input.decode(text)

    def take_plain_text(self, text: str) -> dict[str, Any]:
        """The same for a call whose arguments are plain text: the one field that takes text gets it.

        That is the only field, or the only one that has to be there. Raises InvalidInput where there is none.
        """
        return self._input.take_plain_text(text)

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same from arguments that are no text: values of JSON, or what can be written as such."""
        return self._input.convert(arguments)

    def plain(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call as events and records hold them: what msgspec cannot write is a tree of JSON."""
        return self._input.plain(arguments)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}({self._input!r})>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StreamingTool(Tool[P, R_co], Generic[P, R_co, E_contra, V_co]):
    """A tool whose value a reducer makes of its events: those it yields or sends to its sink, or those of its Flow.

    The events are shown to whoever watches. Anything else that the function returns is dropped.
    """

    reducer: Reducer[E_contra, Any, V_co]


_sink: ContextVar[Sink[Any]] = ContextVar("streamkit_sink")


def current_sink() -> Sink[Any]:
    """The sink of the tool call that runs here, for helpers deep inside it, including its tasks and its threads.

    Raises FlowError outside any tool call.
    """
    try:
        return _sink.get()
    except LookupError:
        raise FlowError("current_sink() is known only while a tool runs; elsewhere hand the sink down") from None


def use_sink(sink: Sink[Any]) -> None:
    """From here on `current_sink()` is this one, in this task. For whoever gives a call a task of its own."""
    _sink.set(sink)


def _check_functions(tool: Tool[..., Any], input: Input, what: str) -> None:
    before = tool.takes_context + tool.takes_sink
    for names in (input.names, input.always):
        check_takes(
            tool.function,
            before,
            names,
            f"{what}: its function cannot be called with its input (takes_context=, takes_sink= say what comes before)",
        )
        if tool.check is not None:
            check_takes(tool.check, 0, names, f"{what}: check= must take the arguments of the tool by name")
    if inspect.iscoroutinefunction(tool.check):
        raise DefinitionError(f"{what}: check= takes a plain function; if it has to wait, use authorize=")
    if tool.on_input is not None:
        check_takes(tool.on_input, 1, (), f"{what}: on_input= must take one ToolInputEvent")


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
