"""The history of a run from its events."""

from streamkit.conversation import Conversation
from streamkit.history import append_turn
from streamkit.items import ToolOutput, assistant, user
from streamkit.testing.histories import check_items
from streamkit.tool_events import Output, Pending, ToolStarted
from streamkit.transcript import Transcript
from streamkit.turns import TextDelta, ToolInputStart, Turn, TurnEnded, TurnRestarted, TurnStarted

from .paired import ONE, TWO, turn, value


def test_a_turn_that_a_transcript_hears_of_twice_is_one() -> None:
    transcript = Transcript((user("go"),))
    ended = TurnEnded(turn(assistant("I look"), ONE))
    for event in (TurnStarted("t1", "m"), ended, ended, Output("c1", "read", value(ONE, "1")), ended):
        transcript.feed(event)
    assert transcript.history() == (user("go"), assistant("I look"), ONE, ToolOutput("c1", "read", "1"))


def test_a_transcript_is_legal_at_every_moment() -> None:
    ended = turn(assistant("I look"), ONE, TWO)
    events = [
        TurnStarted("t1", "m"), TextDelta("I "), TextDelta("look"), ToolInputStart("c1", "read"), TurnEnded(ended),
        ToolStarted("x", "c1", "read", {}),
        Output("c2", "read", value(TWO, "2")), Output("c1", "read", value(ONE, "1")),
        TurnStarted("t2", "m"), TextDelta("Fine"), TurnEnded(Turn("t2", "m", (assistant("Fine"),))),
    ]  # fmt: skip
    transcript = Transcript((user("go"),))
    histories = []
    for event in events:
        transcript.feed(event)  # type: ignore[arg-type]
        histories.append(transcript.history("stopped"))
        check_items(histories[-1])
    assert histories[2] == (user("go"), assistant("I look")), "text, but no half call"
    assert histories[6][-2:] == (ToolOutput("c1", "read", "stopped", failed=True), ToolOutput("c2", "read", "2"))
    results = [value(ONE, "1"), value(TWO, "2")]
    assert histories[-1] == (*append_turn((user("go"),), ended, results), assistant("Fine"))


def test_a_transcript_forgets_what_a_restart_took_back_and_blank_text() -> None:
    transcript = Transcript()
    for event in (TurnStarted("t1", "m"), TextDelta("First, open"), TurnRestarted("connection lost"), TextDelta(" \n")):
        transcript.feed(event)
    assert transcript.history() == ()


def test_a_transcript_knows_the_calls_that_its_start_waits_for() -> None:
    waiting = Conversation((user("go"),)).add(turn(ONE, TWO), [value(ONE, "1"), Pending("c2", "read")])
    transcript = Transcript(waiting)
    stopped = (ONE, TWO, ToolOutput("c1", "read", "1"), ToolOutput("c2", "read", "stopped", failed=True))
    assert transcript.history("stopped") == (user("go"), *stopped)
    transcript.feed(Output("c2", "read", value(TWO, "2")))
    assert transcript.history()[-1] == ToolOutput("c2", "read", "2")
