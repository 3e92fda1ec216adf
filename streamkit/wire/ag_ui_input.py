"""What an AG-UI client asks for: the conversation, what the person decided, and the tools that the client has.

A server that keeps nothing between two requests can answer it:

    asked = from_run_input(body)
    run = converse(model, asked.toolkit_with(toolkit), asked.conversation, authorize=asked.authorize())
    encoder = asked.encoder()

What a client says is not believed: a history can be made up. No call that it brings runs, unless its tool asks for
approval and the client has it approved; a `Seal`, given here and to the encoder, makes sure that it is one that the
client was asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..conversation import Conversation
from ..errors import DefinitionError, MessagesRefused, VerdictRefused
from ..execution.approval import Allow, Authorize, Deny, Needs, Question, Verdict, asks_for_marked, must_ask
from ..execution.verdicts import from_verdicts
from ..items import Message, ToolCall, ToolOutput
from ..redaction import Redact
from ..shapes.foreign_schemas import without_patterns
from ..tool_events import Failure, Pending, ToolResult, Value
from ..tools.tool import Tool
from ..tools.toolkit import Toolkit
from .ag_ui import AgUiEncoder
from .ag_ui_ends import interrupt_id
from .ag_ui_messages import NO_RESULT, ModelTurn, read_messages
from .ag_ui_records import Offered, Resume, RunAgentInput
from .encoding import VALUE_LIMIT_BYTES
from .kept_turns import items_of
from .seals import Seal

MAX_MESSAGES = 10_000
MAX_TOOLS = 128
MAX_ID_CHARS = 256


@dataclass(frozen=True, slots=True)
class AgUiInput:
    """A run that a client asks for.

    conversation: to go on with; where calls wait in it, verdicts has what the person decided, by execution id. tools:
    those of the client; calls of them end the run, and the client brings their results with the next one.
    instructions: what the client would tell the model before all; it is in no history. data: `state`, `context` and
    `forwardedProps`, unchecked.
    """

    thread_id: str
    run_id: str
    conversation: Conversation
    verdicts: Mapping[str, Verdict]
    tools: Toolkit
    instructions: str
    data: Mapping[str, Any]
    seal: Seal | None

    def toolkit_with(self, toolkit: Toolkit) -> Toolkit:
        """The tools of the server and those of the client. Raises MessagesRefused where they share a name."""
        if shared := sorted({*self.tools.names} & {*toolkit.names}):
            raise MessagesRefused(f"the server has tools of its own that are named {', '.join(shared)}")
        return toolkit | self.tools

    def authorize(self, needs: Needs = asks_for_marked) -> Authorize:
        """Decides about calls as the person did. needs: which calls are asked about.

        A call that the client brings without a result, and that nobody has to be asked about, is denied: it was cut
        off, or made up. Raises VerdictRefused for a verdict on a call that does not wait.
        """
        decide = from_verdicts(self.verdicts, self.conversation, needs=needs)
        brought = self.conversation.waiting

        async def authorize(question: Question) -> Verdict:
            if question.execution_id in brought and not must_ask(needs, question.call):
                return Deny(NO_RESULT)
            return await decide(question)

        return authorize

    def encoder(self, *, redact: Redact | None = None, value_limit_bytes: int = VALUE_LIMIT_BYTES) -> AgUiEncoder:
        """The encoder of the answer."""
        return AgUiEncoder(
            run_id=self.run_id,
            thread_id=self.thread_id,
            redact=redact,
            value_limit_bytes=value_limit_bytes,
            client_tools=self.tools.names,
            conversation=self.conversation,
            seal=self.seal,
        )


def from_run_input(body: object, *, seal: Seal | None = None) -> AgUiInput:
    """The run that a body asks for. body: decoded JSON, or the record.

    seal: the one that the encoders of this thread had: then calls that were not asked about are refused, and so are
    changed ones. Without it, whoever may ask for a run can have any tool run that waits for approvals, with any
    arguments.

    Raises MessagesRefused for what is no such body or leaves nothing to answer, VerdictRefused for an answer to a
    question that nobody asked, or that says neither yes nor no.
    """
    read = body if isinstance(body, RunAgentInput) else _read(body)
    _check_size(read)
    history, open_turn = read_messages(
        read.messages, lambda kept: None if seal is None else items_of(kept, seal, read.thread_id)
    )
    tools = _tools(read.tools or ())
    conversation = Conversation(history)
    if open_turn is not None and (read.resume or any(call.name in tools for call in open_turn.calls)):
        conversation = _waiting(conversation, open_turn)
    elif open_turn is not None:
        conversation = Conversation((*history, *open_turn.settled()))
    _check_something_to_answer(conversation)
    return AgUiInput(
        thread_id=read.thread_id,
        run_id=read.run_id,
        conversation=conversation,
        verdicts=_verdicts(read, conversation, seal),
        tools=tools,
        instructions="\n\n".join(_instructions(read)),
        data={"state": read.state, "context": read.context or [], "forwardedProps": read.forwarded_props},
        seal=seal,
    )


def _read(body: object) -> RunAgentInput:
    try:
        return msgspec.convert(body, RunAgentInput)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MessagesRefused(f"this is not a RunAgentInput of AG-UI: {error}") from error


def _check_size(read: RunAgentInput) -> None:
    for name, given in (("threadId", read.thread_id), ("runId", read.run_id)):
        if not 0 < len(given) <= MAX_ID_CHARS:
            raise MessagesRefused(f"{name} needs 1 to {MAX_ID_CHARS} characters")
    for what, limit, count in (
        ("messages", MAX_MESSAGES, len(read.messages)),
        ("tools", MAX_TOOLS, len(read.tools or ())),
    ):
        if count > limit:
            raise MessagesRefused(f"{count} {what} are more than {limit}")


def _check_something_to_answer(conversation: Conversation) -> None:
    last = conversation.history[-1] if conversation.history else None
    if conversation.turn is None and (last is None or (isinstance(last, Message) and last.role == "assistant")):
        raise MessagesRefused("there is nothing to answer: the last message is neither from the person nor a result")


def _instructions(read: RunAgentInput) -> list[str]:
    told = [message.content for message in read.messages if message.role in ("system", "developer")]
    return [text for text in told if isinstance(text, str) and text.strip()]


# Calls that wait


def _waiting(conversation: Conversation, open_turn: ModelTurn) -> Conversation:
    """The conversation with the turn whose calls wait; those that the client has answered have their results."""
    turn = open_turn.as_turn()
    results = tuple(_result(call, open_turn.answers.get(call.call_id)) for call in turn.calls)
    return msgspec.structs.replace(conversation, turn=turn, results=results, ended="pending")


def _result(call: ToolCall, answer: ToolOutput | None) -> ToolResult:
    if answer is None:
        return Pending(call.call_id, call.name)
    if answer.failed:
        return Failure(call.call_id, call.name, "failed", answer.text)
    return Value(call.call_id, call.name, answer.text, answer.text, images=answer.images)


def _verdicts(read: RunAgentInput, conversation: Conversation, seal: Seal | None) -> dict[str, Verdict]:
    questions: dict[str, str] = {}
    for execution_id, call in conversation.waiting.items():
        code = None if seal is None else seal.of_call(read.thread_id, call.call_id, call)
        questions[interrupt_id(call.call_id, code)] = execution_id
    verdicts: dict[str, Verdict] = {}
    for entry in read.resume or ():
        execution_id = questions.get(entry.interrupt_id, "")
        if not execution_id:
            raise VerdictRefused(f"no call waits for an answer to {entry.interrupt_id[:MAX_ID_CHARS]!r}")
        if execution_id in verdicts:
            raise VerdictRefused(f"{entry.interrupt_id[:MAX_ID_CHARS]!r} is answered twice")
        verdicts[execution_id] = _verdict(entry)
    return verdicts


def _verdict(entry: Resume) -> Verdict:
    """Yes or no, or an object as the question describes it; {"value": …} is what the call gives without running."""
    if entry.status == "cancelled":
        return Deny("the person did not decide")
    answer = entry.payload if isinstance(entry.payload, dict) else {"approved": entry.payload}
    reason, edited = answer.get("reason"), answer.get("editedArgs")
    match answer.get("approved"):
        case False:
            return Deny(reason if isinstance(reason, str) and reason.strip() else "the person said no")
        case True if edited is None or isinstance(edited, dict):
            return Allow(edited)
        case None if "value" in answer:
            return Allow(value=answer["value"])
    raise VerdictRefused(f"the answer to {entry.interrupt_id[:MAX_ID_CHARS]!r} says neither yes nor no")


# Tools of the client


def _tools(offered: tuple[Offered, ...] | list[Offered]) -> Toolkit:
    try:
        return Toolkit(*map(_tool, offered))
    except DefinitionError as error:
        raise MessagesRefused(f"the tools of the client cannot be taken: {error}") from error


def _tool(offered: Offered) -> Tool[..., Any]:
    """A tool without a body: the client answers its calls, and checks them itself."""
    schema = without_patterns(offered.parameters or {})
    if not isinstance(schema, dict):
        raise DefinitionError(f"tool {offered.name[:64]!r}: its parameters are not a JSON Schema of an object")
    try:
        return Tool(
            name=offered.name,
            description=offered.description.strip() or f"The tool {offered.name} of the application.",
            input={"type": "object", **schema},
            origin="the application",
        )
    except RecursionError as error:
        raise DefinitionError(f"tool {offered.name[:64]!r}: its parameters are nested too deeply") from error
