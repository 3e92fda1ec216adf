"""What clients ask for: the bodies of our own protocol, and what is handed to whoever makes a run of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException

from ..conversation import Conversation
from ..execution.approval import Allow, Authorize, Deny
from ..execution.running import Running
from ..history import cancel_pending
from ..items import Image, Item, Message, user
from ..journal.log import RunLog
from ..tools.toolkit import Toolkit
from ..transcript import Transcript

NO_TOOLS = Toolkit()

UNFINISHED = "This call was cut off with its run: what it did until then is not known."
UNDECIDED = "This call did not run: nobody decided about it before the person went on."


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that a client asks for, as `start` gets it.

    conversation: what to continue: the history with what the person says now, or with calls that wait for a verdict.
    authorize, running, journal: pass these on to `converse`, so that verdicts and cancels reach the run, and it is
    written down if the app has a journal. user: what `authenticate` returned. data: `data` of the body, unchecked; of
    the AI SDK all but `id` and `messages`, of AG-UI `state`, `context` and `forwardedProps`. instructions,
    client_tools: the system messages of an AG-UI client, and the tools that it answers itself.

    The client may have sent the history itself: it is a claim of the user, not evidence.
    """

    run_id: str
    conversation: Conversation
    authorize: Authorize
    running: Running
    journal: RunLog | None = None
    user: Any = None
    data: Any = None
    instructions: str = ""
    client_tools: Toolkit = NO_TOOLS

    def toolkit_with(self, toolkit: Toolkit) -> Toolkit:
        """These tools, and those of the client. One that takes the name of one of these is refused."""
        if shared := sorted({*self.client_tools.names} & {*toolkit.names}):
            raise HTTPException(422, f"the server has tools of its own that are named {', '.join(shared)}")
        return toolkit | self.client_tools


class Said(msgspec.Struct, forbid_unknown_fields=True):
    """What a person says, with pictures."""

    text: str
    images: tuple[Image, ...] = ()


class RunBody(msgspec.Struct, forbid_unknown_fields=True):
    """Of POST /runs. history: items that go before the message. after: the run whose conversation goes on.

    resume: a run that was cut off, and goes on as itself; nothing can be said then.
    """

    message: str | Said | None = None
    history: tuple[Item, ...] | None = None
    after: str | None = None
    resume: str | None = None
    data: Any = None

    def __post_init__(self) -> None:
        before = [name for name in ("history", "after", "resume") if getattr(self, name) is not None]
        if len(before) > 1:
            raise ValueError(f"a run goes on with one of {' and '.join(before)}")
        if self.resume is not None and self.message is not None:
            raise ValueError("a resumed run continues as it was: nothing can be said with it")

    @property
    def said(self) -> tuple[Message, ...]:
        if self.message is None:
            return ()
        return (
            (user(self.message),) if isinstance(self.message, str) else (user(self.message.text, *self.message.images),)
        )


class VerdictBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Of POST /runs/{id}/verdicts. arguments, value, always: as in `ApprovalDesk.allow`; reason: of a denial."""

    execution_id: str
    allow: bool
    arguments: dict[str, Any] | None = None
    value: Any | UnsetType = UNSET
    reason: str | None = None
    always: bool = False

    @property
    def verdict(self) -> Allow | Deny:
        if self.allow:
            return Allow(self.arguments, self.value)
        return Deny(self.reason or "the person said no")


class CancelBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Of POST /runs/{id}/cancel: of one call, or of the whole run."""

    execution_id: str | None = None
    reason: str | None = None


def conversation_of(body: RunBody, before: Conversation) -> Conversation:
    """The conversation that a body lets go on. before: that of the run it names; of a new one it is empty."""
    said = body.said
    if body.history is not None:
        before = Conversation(cancel_pending(body.history, UNFINISHED))
    if before.turn is not None and said:
        before = msgspec.structs.replace(before, history=Transcript(before).history(UNDECIDED), turn=None, results=())
    if before.turn is not None:
        return msgspec.structs.replace(before, ended=None)
    conversation = before.say(*said)
    last = conversation.history[-1] if conversation.history else None
    if last is None or (isinstance(last, Message) and last.role == "assistant"):
        raise HTTPException(422, "the body has no message, and there is nothing to answer without one")
    return conversation
