"""Processes that are killed while they write: what was reported as written is there."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUARD_SECONDS = 240
SEED, KILLS = "1", "30"


@pytest.mark.skipif(sys.platform == "win32", reason="nothing forks here")
def test_nothing_that_was_reported_is_lost_wherever_the_writer_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.journal.sqlite_crash", str(tmp_path / "runs.db"), SEED, KILLS]
    ended = subprocess.run(command, cwd=ROOT, timeout=GUARD_SECONDS, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
