"""Backends of one's own, as a user writes them: a decoder for a protocol of its own, and a model over any iterable."""

import inspect
from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from streamkit import Flow, TextDelta, Toolkit, ToolOutput, Turn, TurnEvent, TurnRequest, Usage, converse, tool, user
from streamkit.backends import (
    Failed,
    Finished,
    InputDelta,
    InputEnd,
    InputStart,
    Part,
    UsageReported,
    WholeCall,
    decoded,
    run_turn,
)
from streamkit.errors import IncompleteStream, ProviderError
from streamkit.testing import check_decoder, check_grammar, check_model

# A decoder: bytes in, parts out, whatever the pieces


class LineDecoder:
    """One thing a line: `say TEXT`, `call ID NAME`, `args TEXT`, `done`, `oops TEXT`, and `end`."""

    def __init__(self) -> None:
        self._rest = b""  # a line that is not whole yet

    def feed(self, data: bytes) -> list[Part]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        parts: list[Part] = []
        for line in lines:
            kind, _, text = line.decode(errors="replace").partition(" ")
            match kind:
                case "say":
                    parts.append(TextDelta(text))
                case "call":
                    call_id, _, name = text.partition(" ")
                    parts.append(InputStart(call_id=call_id, name=name))
                case "args":
                    parts.append(InputDelta(text))
                case "done":
                    parts.append(InputEnd())
                case "oops":
                    return [*parts, Failed(ProviderError(text))]
                case "end":
                    return [*parts, Finished("stop")]
        return parts

    def end(self) -> list[Part]:
        return [Failed(IncompleteStream("the answer ended before its end line"))]


class LineModel:
    """Asks with `ask`, which gives the bytes of the answer as they come."""

    name = "lines"

    def __init__(self, ask: Callable[[TurnRequest], AsyncIterator[bytes]]) -> None:
        self._ask = ask

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        return Flow(lambda out: run_turn(out, self.name, request, decoded(self._ask(request), LineDecoder())))


# A model over whatever gives its pieces one after the other: parts as they come, or a whole call


class Generated:
    """A model inside of this process: an async generator of lists of parts is all that it needs."""

    name = "generated"

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        return Flow(lambda out: run_turn(out, self.name, request, self._write(request)))

    async def _write(self, request: TurnRequest) -> AsyncIterator[list[Part]]:
        if isinstance(request.history[-1], ToolOutput):
            yield [TextDelta("It says: "), TextDelta(request.history[-1].text)]
        elif request.tools:
            yield [InputStart(0, "a", "read")]
            for token in ('{"path":', ' "notes', '.txt"}'):
                await anyio.lowlevel.checkpoint()  # here the model thinks
                yield [InputDelta(token, 0)]
            yield [InputEnd(0)]
            yield [WholeCall("read", {"path": "more.txt"})]
        else:
            yield [TextDelta("Hello.")]
        yield [UsageReported(Usage(12, 8)), Finished("stop")]


# What they have to keep


ANSWER = b'say I read \ncall c1 read\nargs {"path":\nargs  "n\xc3\xb6tes.txt"}\ndone\nend\n'
AFTERWARDS = b"say Done\nend\n"


async def ask(request: TurnRequest) -> AsyncIterator[bytes]:
    """Stands for a connection."""
    body = AFTERWARDS if isinstance(request.history[-1], ToolOutput) else ANSWER
    for at in range(0, len(body), 7):
        await anyio.lowlevel.checkpoint()
        yield body[at : at + 7]


async def fail(request: TurnRequest) -> AsyncIterator[bytes]:
    yield ANSWER[:40]
    yield b"\noops out of lines\n"


@tool
async def read(path: str) -> str:
    """Reads a file."""
    return f"this is {path}"


KIT = Toolkit(read)


def test_the_decoder_does_not_depend_on_the_cuts() -> None:
    check_decoder(LineDecoder, ANSWER, tools=("read",))
    check_decoder(LineDecoder, b"say Hi\noops out of lines\nend\n")


@pytest.mark.parametrize("model", [LineModel(ask), Generated()], ids=["lines", "generated"])
async def test_the_models_keep_what_loops_rely_on(model: LineModel | Generated) -> None:
    await check_model(model, tools=KIT.specs)
    await check_model(model)


async def test_a_model_whose_backend_fails_keeps_it_too() -> None:
    await check_model(LineModel(fail), tools=KIT.specs, fails=True)


@pytest.mark.parametrize(
    ("model", "paths", "says"),
    [
        (LineModel(ask), ["nötes.txt"], "Done"),
        (Generated(), ["notes.txt", "more.txt"], "It says: this is more.txt"),
    ],
    ids=["lines", "generated"],
)
async def test_they_run_in_a_loop(model: LineModel | Generated, paths: list[str], says: str) -> None:
    async with converse(model, KIT, (user("Read my notes"),)).open() as opened:
        events = [event async for event in opened]
    check_grammar(events)
    outputs = [item.text for item in opened.value.history if isinstance(item, ToolOutput)]
    assert outputs == [f"this is {path}" for path in paths]
    assert getattr(opened.value.history[-1], "text", None) == says


@pytest.mark.parametrize("example", [LineDecoder, LineModel, Generated])
def test_each_has_less_than_forty_lines(example: type) -> None:
    assert len(inspect.getsource(example).splitlines()) < 40
