"""What `import streamkit` gives, and what it loads: whoever starts a program waits for it."""

import subprocess
import sys

import streamkit
from streamkit import StreamkitError, errors

ON_USE = {
    "asyncio", "hashlib", "httpx2", "jsonschema", "mcp", "pathlib", "pydantic", "rich", "sqlite3", "starlette", "trio",
    "urllib.parse",
}  # fmt: skip


def loaded_by(program: str) -> set[str]:
    command = [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())


def test_what_few_programs_use_is_loaded_on_use() -> None:
    needed = loaded_by("import anyio.from_thread, anyio.lowlevel, logging, msgspec")
    assert not (loaded_by("import streamkit") - needed) & ON_USE


def test_the_root_names_every_error() -> None:
    tree = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, StreamkitError)}
    assert tree <= set(streamkit.__all__)
