"""What all tests share: both backends, hypothesis without a clock, and a word at the end on what was left out."""

import pytest
from hypothesis import HealthCheck, settings

from streamkit.providers import requests

from .interop.parts import MISSING

# How long an example takes says how busy the machine is. All else is as hypothesis has it, here and in CI.
settings.register_profile("streamkit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("streamkit")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Named here, so that a backend which is not installed fails instead of being left out."""
    return request.param


@pytest.fixture(autouse=True)
def nothing_was_said() -> None:
    """What is logged once a process is logged in each test, whichever test came before."""
    requests._said.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The first line that somebody reads who has just installed streamkit should not leave them guessing."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    count = sum(MISSING in each for each in skipped)
    if count:
        left_out = f"{count} tests with the clients and servers of others were skipped"
        terminalreporter.write_line(f"{left_out}: `make interop` installs those")
