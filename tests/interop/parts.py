"""The clients and servers of others that tests speak with, where they are installed.

`make interop` installs them. In CI, which says STREAMKIT_INTEROP=all, a missing one is a failure.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MODULES = FOLDER / "node_modules"

INSTALL = "install it with `make interop`"
MISSING = "is not installed"
"""In the reason of each test that is skipped for a part, for the summary at the end."""

NODE = shutil.which("node")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def _needs(what: str, found: bool) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not found and os.environ.get("STREAMKIT_INTEROP") != "all", reason=f"{what} {MISSING}: {INSTALL}"
    )


needs_node = _needs("Node.js with the packages of tests/interop", NODE is not None and MODULES.is_dir())
needs_browser = _needs("Chromium", BROWSER is not None)
