"""What `import streamkit` costs beside what it cannot do without. Each import has a fresh interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from .measure import ROUNDS, Figure, Goal, figure

USED = "msgspec, anyio.abc, anyio.from_thread, anyio.lowlevel; anyio.Event, anyio.create_task_group"
"""`anyio` loads its parts when they are asked for, and any program asks for these."""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as compiled:
        # compiled once, as an installed package is, also where this checkout may not be written to
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def race(name: str, floor: str, goal: Goal | None) -> Figure:
            def seconds() -> tuple[float, float]:
                return seconds_of("streamkit", environment), seconds_of(floor, environment)

            seconds()
            return figure(name, [seconds() for _ in range(ROUNDS)], count=1, goal=goal)

        yield race("importing.streamkit", "msgspec, anyio", Goal(1.5))
        yield race("importing.streamkit_to_parts_used", USED, None)


def seconds_of(modules: str, environment: Mapping[str, str]) -> float:
    program = f"from time import process_time; began = process_time(); import {modules}; print(process_time() - began)"
    return float(subprocess.check_output([sys.executable, "-c", program], env=environment))
