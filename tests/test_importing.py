"""What `import streamkit` gives, and what it loads: whoever starts a program waits for it."""

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [("starlette", "web.response", "web"), ("mcp", "mcp", "mcp"), ("httpx2", "wire.remote", "http")],
)
def test_where_a_package_is_missing_its_extra_is_named(package: str, module: str, extra: str) -> None:
    program = f"import sys\nsys.modules[{package!r}] = None\nimport streamkit.{module}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert f"pip install 'streamkit-tools[{extra}]'" in ran.stderr.splitlines()[-1]


def test_the_root_names_every_error() -> None:
    tree = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, StreamkitError)}
    assert tree <= set(streamkit.__all__)
