"""The command line: `streamkit decode` shows what is to be read in the body of a streamed answer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from .input_fields import FieldReader
from .providers.decoders import DECODERS
from .testing.decoders import TURN_ID, Played
from .testing.decoding import summary
from .turns import TurnEnded, TurnStarted

PIECE_BYTES = 64 * 1024
STANDARD_INPUT = 0  # what Python makes of it is None where it is closed

EPILOG = """\
The object has text, reasoning, refusal, tool_calls (those that may run), abandoned, invalid_calls, other_items, stop,
stop_reason (the provider's word), usage and error. The command ends with 1 where the stream ended in an error, and with
2 where there was nothing to read.

  curl -sN https://…/chat/completions -d @request.json | streamkit decode --dialect openai-chat --events -
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Gives its exit code: 0, 1 where the stream ended in an error, 2 where it could not be read."""
    asked = _parser().parse_args(arguments)
    if sys.stdout is None:  # closed by whoever started the command
        return 2
    try:
        with _opened(asked.file) as body:
            code = _decode(asked, _pieces(body))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough; Python would complain of it once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"streamkit: {asked.file}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="streamkit", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    decode = commands.add_parser(
        "decode",
        help="print the turn that the body of a streamed answer holds, as one JSON object",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    decode.add_argument("--dialect", required=True, choices=tuple(DECODERS), help="the format of the body")
    decode.add_argument("--tools", default="", metavar="NAME,…", help="the known tools: some servers cut names")
    decode.add_argument("--events", action="store_true", help="print the events instead, one JSON object a line")
    decode.add_argument("--fields", action="store_true", help="the same, with the fields of the arguments as they grow")
    decode.add_argument("file", metavar="FILE", help="the body as it was received; - reads it from the standard input")
    return parser


def _opened(file: str) -> BinaryIO:
    return os.fdopen(os.dup(STANDARD_INPUT), "rb", buffering=0) if file == "-" else open(file, "rb", buffering=0)


def _pieces(body: BinaryIO) -> Iterator[bytes]:
    """As they come: who pipes an answer in wants to see it grow."""
    while piece := body.read(PIECE_BYTES):
        yield piece


def _decode(asked: argparse.Namespace, pieces: Iterator[bytes]) -> int:
    played = Played(asked.dialect)
    shows_events = asked.events or asked.fields
    fields = FieldReader()
    if shows_events:
        _print(TurnStarted(TURN_ID, asked.dialect))
    for event in played.play(DECODERS[asked.dialect](), pieces, asked.tools.split(",")):
        if shows_events:
            _print(event)
        for field in fields.read(event) if asked.fields else ():
            _print(field)
    assert played.turn is not None
    if not shows_events:
        _print(summary(played.turn, played.error), indent=2 if sys.stdout.isatty() else -1)
    elif played.error is None:
        _print(TurnEnded(played.turn))
    else:
        _print({"type": "error", "kind": played.error.kind, "message": str(played.error)})
    return 0 if played.error is None else 1


def _print(told: object, indent: int = -1) -> None:
    """JSON is UTF-8, whatever the terminal takes for text."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(told), indent=indent) + b"\n")
    sys.stdout.buffer.flush()
