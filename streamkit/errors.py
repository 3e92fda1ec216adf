"""Every exception that streamkit raises, in one tree.

    StreamkitError
    ├── DefinitionError        a tool, flow or toolkit is declared wrongly (also a TypeError)
    ├── FlowError              a flow, its events or its sink are used wrongly (also a RuntimeError)
    │   ├── FlowNotOpened      iterated or entered before `open()` (also a TypeError)
    │   ├── NotFinished        `value` before the iteration has ended
    │   ├── SinkClosed         an event is sent after the work has returned
    │   └── AlreadyPulling     a second consumer pulls at the same time
    ├── WorkCancelled          the work was cancelled, its consumer was not
    ├── RunStopped             somebody stopped a run that is watched from elsewhere
    ├── ToolError              raised by a tool's author: the model reads its message
    │   └── McpServerError     an MCP server was not reached, was lost, or refused
    ├── ReducerError           a reducer has no value to give
    ├── InvalidInput           arguments that do not fit their tool
    ├── InvalidCall            a call that does not fit its tool
    ├── NotRunning             a call to be cancelled is not running
    ├── VerdictRefused         a verdict on a call that does not wait for it
    ├── HistoryError           calls and results do not pair up
    ├── MessagesRefused        what a client sent as messages cannot be taken
    ├── DecodeError            bytes that are not what they should be
    │   └── DecoderClosed      bytes after the end, or after an error
    ├── ModelError             a model turn failed
    │   ├── ConnectionFailed   the provider was not reached, or the connection broke
    │   ├── ProviderError      the provider says that something failed
    │   ├── IncompleteStream   the body ended before the turn did
    │   ├── BadPayload         an event of the stream cannot be read
    │   ├── NotAStream         the answer is something other than a stream of events
    │   ├── BadModelOutput     the provider could not read what its model wrote
    │   ├── IdleTimeout        nothing came for too long
    │   └── TurnTimeout        the whole turn took too long
    ├── AnswerError            a turn went well, but is not the answer that was asked for
    │   ├── NoAnswer           it has no text
    │   ├── Refused            the model refused
    │   ├── CutAnswer          it was cut off
    │   └── InvalidAnswer      it does not fit its type
    ├── RemoteError            a run in another program failed, or was refused
    ├── JournalError           a journal cannot be read or written
    │   ├── JournalMismatch    a call is not the one that was written down
    │   ├── RunIsHeld          another process or task drives the run
    │   └── UnknownRun         nothing is written down of the run
    ├── RecordingError         a recording cannot be replayed
    └── LocalModelError        the local model did not start, or ended

A mistake of the program is raised where it is made, with its fix. What a model should read is no exception but a
`Failure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tool_events import Failure
    from .turns import Turn


class StreamkitError(Exception):
    """The root of the tree; never raised itself."""


class DefinitionError(StreamkitError, TypeError):
    """A tool, flow or toolkit is declared wrongly; raised at its definition and says the fix."""


class FlowError(StreamkitError, RuntimeError):
    """A flow, its events or its sink are used in an order that makes no sense."""


class FlowNotOpened(FlowError, TypeError):
    """A flow was iterated, or entered, before it was opened."""


class NotFinished(FlowError):
    """`Events.value` was read, but the iteration has not ended with a value; the message says why."""


class SinkClosed(FlowError):
    """An event was sent after the work that owned the sink had returned."""


class AlreadyPulling(FlowError):
    """A second task pulled from the events of one opening while the first was waiting."""


class WorkCancelled(StreamkitError):
    """The work was cancelled while its consumer was not: no value comes, and this is no clean end."""


class RunStopped(StreamkitError):
    """Somebody stopped the run; raised to those who watch it from elsewhere."""


class ToolError(StreamkitError):
    """Raised by a tool on purpose: its message is what the model reads as the failure of the call."""


class McpServerError(ToolError):
    """An MCP server was not reached, was lost, or refused; its message may be shown to a model."""


class ReducerError(StreamkitError):
    """The events that a reducer waits for did not come, so it has no value to give."""


class InvalidInput(StreamkitError, ValueError):
    """The text of a call's arguments does not fit its tool; the message is what the model should read."""


class InvalidCall(StreamkitError):
    """A call that does not fit its tool. `failure` is what the model should read."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class NotRunning(StreamkitError):
    """A call that was to be cancelled has ended, or never was."""


class VerdictRefused(StreamkitError):
    """A verdict that cannot be taken; nothing is changed by it. The message is for whoever sent it."""


class HistoryError(StreamkitError, ValueError):
    """Calls and results of a history do not pair up; a provider would refuse the next request."""


class MessagesRefused(StreamkitError, ValueError):
    """What a client sent as the messages of a conversation cannot be taken. The text is for whoever sent it."""


class DecodeError(StreamkitError, ValueError):
    """Bytes or text that are not in the format that the decoder reads."""


class DecoderClosed(DecodeError):
    """A decoder was fed after its end or after an error."""


class ModelError(StreamkitError):
    """A model turn failed.

    kind: which error it is, in one word for programs. turn: what had come until then, closed and usable, or None where
    nothing began. status: of the HTTP answer. request_id: what to tell the provider's support. retry_after: seconds,
    where the provider named them.
    """

    kind = "model_error"

    def __init__(
        self,
        message: str,
        *,
        turn: Turn | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.turn = turn
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after


class ConnectionFailed(ModelError):
    """The provider was not reached in time, or the connection broke before the turn was whole."""

    kind = "connection_failed"


class ProviderError(ModelError):
    """The provider says, in a status, a body or an event of the stream, that something failed."""

    kind = "provider_error"


class IncompleteStream(ModelError):
    """The body ended before the end of the turn was declared in any way."""

    kind = "incomplete_stream"


class BadPayload(ModelError):
    """An event of the stream cannot be read."""

    kind = "bad_payload"


class NotAStream(ModelError):
    """The answer is something other than a stream of events: an HTML page, a bare JSON body."""

    kind = "not_a_stream"


class BadModelOutput(ModelError):
    """The provider says that its model wrote a call that cannot be read; another try may go well."""

    kind = "bad_model_output"


class IdleTimeout(ModelError):
    """Nothing came of the answer for too long. Comments and pings that keep a connection alive are nothing."""

    kind = "idle_timeout"


class TurnTimeout(ModelError):
    """The turn took longer than it may in all, however much came."""

    kind = "timeout"


class RemoteError(StreamkitError):
    """A run in another program failed, or the server that drives it refused what was asked of it.

    code: which error ended the run, in one word for programs; empty for a refusal. status: of the HTTP answer that
    refused, else None. retry_after: seconds, where the server named them.
    """

    def __init__(
        self, message: str, *, code: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after = retry_after


class JournalError(StreamkitError):
    """The store of a journal cannot be read or written: it is full, locked, damaged, or of a later version."""


class JournalMismatch(JournalError):
    """What is to happen does not fit what is written down: a call is another one, the history one that the run has left
    behind, or the turn of a call was not taken."""


class RunIsHeld(JournalError):
    """Somebody else drives the run; the message says who."""


class UnknownRun(JournalError):
    """Nothing is written down of the run, or not as much as was asked for."""


class AnswerError(StreamkitError):
    """A model turn went well, but is not the answer that was asked for.

    kind: which error it is, in one word for programs. turn: the last one that was asked for.
    """

    kind = "answer_error"

    def __init__(self, message: str, *, turn: Turn) -> None:
        super().__init__(message)
        self.turn = turn


class NoAnswer(AnswerError):
    """The turn has no text, or calls of tools instead of an answer."""

    kind = "no_answer"


class Refused(AnswerError):
    """The model refused to answer; the message has its words."""

    kind = "refused"


class CutAnswer(AnswerError):
    """The answer was cut off: at the token limit, by a filter, or for a reason that is not known."""

    kind = "cut_answer"


class InvalidAnswer(AnswerError):
    """The answer does not fit its type, and may not be asked for again; the message says what is wrong."""

    kind = "invalid_answer"


class RecordingError(StreamkitError):
    """A recorded exchange with a provider cannot be read, or holds no answer to what is asked."""


class LocalModelError(StreamkitError):
    """The local model is not installed, did not start in time, or ended by itself."""


def words_of(error: BaseException) -> str:
    """What an error says of itself; nothing where that raises, as a class of a user may."""
    try:
        return str(error)
    except Exception:
        return ""
