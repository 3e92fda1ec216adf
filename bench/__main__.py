"""`python -m bench [SUBJECT …]`: one JSON line per figure.

Ends with status 1 where a figure that must hold does not.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator

import msgspec

from . import (
    channel,
    decoding,
    execution,
    growing,
    importing,
    journal,
    many_runs,
    partial,
    peers,
    reducing,
    soak,
    turns,
    web,
    wire,
)
from .measure import Figure, Skipped

SUBJECTS: dict[str, Callable[[], Iterator[Figure | Skipped]]] = {
    "channel": channel.figures,
    "execution": execution.figures,
    "reducing": reducing.figures,
    "decoding": decoding.figures,
    "partial": partial.figures,
    "turns": turns.figures,
    "growing": growing.figures,
    "journal": journal.figures,
    "many_runs": many_runs.figures,
    "soak": soak.figures,
    "wire": wire.figures,
    "web": web.figures,
    "importing": importing.figures,
    "peers": peers.figures,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The hot paths, one JSON line per figure.")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(SUBJECTS)}; default: all")
    asked = parser.parse_args().subjects or list(SUBJECTS)
    if unknown := [subject for subject in asked if subject not in SUBJECTS]:
        parser.error(f"no subject {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    gc.freeze()  # what is loaded is no garbage, and is not looked through in the middle of a race
    missed = 0
    for subject in asked:
        for line in SUBJECTS[subject]():
            print(msgspec.json.encode(line).decode(), flush=True)
            missed += isinstance(line, Figure) and line.must and not line.holds
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
