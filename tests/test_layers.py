"""Data walks down the page: ROWS, and who may import whom (README, "Layout").

The rules are plain functions over the sources of a package, so that each of them can be seen to complain, too.
Imports inside functions count like the others; imports under TYPE_CHECKING do not.
"""

import ast
import graphlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import pytest

ROWS = (
    ("errors",),
    (
        "flows.*",
        "codec.*",
        "shapes.*",
        "items",
        "durations",
    ),
    ("turns", "tool_events", "metering"),
    (
        "parts",
        "call_input",
        "tool_input",
        "turn_builder",
        "tools.*",
        "history",
        "conversation",
        "transcript",
        "redaction",
        "ledger",
        "bars",
    ),
    (
        "listening",
        "input_fields",
        "shown_calls",
        "held_turns",
        "call_edits",
        "providers.*",
    ),
    (
        "tools.toolkit",
        "answers",
        "journal.entry",
        "journal.store",
        "journal.unclosed",
        "journal.hidden_calls",
        "journal.known_calls",
        "journal.backlog",
        "journal.log",
        "journal.recorded_sink",
        "journal.journals",
    ),
    ("execution.*",),
    ("execution.execute",),
    ("budgets", "timed_runs", "loops", "conversing"),
    (
        "backends",
        "journal.*",
        "wire.*",
        "mcp.*",
        "local.*",
        "terminal.*",
        "testing.*",
    ),  # x.*: whatever else is in folder x
    ("web.*",),
    ("cli", "__main__"),
    ("__init__",),  # the root names what users need; nobody imports it
)
ROW_OF = {module: row for row, modules in enumerate(ROWS) for module in modules}
TOOL_SIDE = {"tools.tool", "tools.toolkit", "execution.execute"}

Sources = Mapping[str, str]
"""The source of each module by its dotted name inside the package; a package's own module is `name.__init__`."""


# What is held


def unplaced_modules(sources: Sources) -> Iterator[str]:
    for module in sources:
        if not is_folder_mark(module) and row_of(module) is None:
            yield f"{module} has no place in ROWS"


def imports_from_below(sources: Sources) -> Iterator[str]:
    """A module imports from rows above it; in its own row, only from its own folder."""
    for module, targets in import_graph(sources).items():
        for target in targets:
            own, other = row_of(module), row_of(target)
            if own is None or other is None:
                yield f"{module} imports {target}: one of them has no place in ROWS"
            elif other > own or (other == own and folder_of(module) != folder_of(target)):
                yield f"{module} (row {own}) imports {target} (row {other})"


def import_cycles(sources: Sources) -> Iterator[str]:
    try:
        graphlib.TopologicalSorter(import_graph(sources)).prepare()
    except graphlib.CycleError as error:
        yield "a cycle: " + " → ".join(error.args[1])


def sides_that_meet(sources: Sources) -> Iterator[str]:
    """Providers and the executor know nothing of each other, not even through a third: they meet at the records."""
    graph = import_graph(sources)
    for module in graph:
        reached = reachable(graph, module)
        if folder_of(module) == "providers" and reached & TOOL_SIDE:
            yield f"{module} reaches {', '.join(sorted(reached & TOOL_SIDE))}"
        if module == "execution.execute" and any(folder_of(target) == "providers" for target in reached):
            yield "execution.execute reaches the providers"


def imports_for_types_only(sources: Sources) -> Iterator[str]:
    """An import for types only is a cycle in disguise; errors, on top of all, may name what it carries."""
    for module, source in sources.items():
        if module != "errors" and any(is_type_checking(node) for node in ast.walk(ast.parse(source))):
            yield f"{module} imports under TYPE_CHECKING"


def code_in_folder_marks(sources: Sources) -> Iterator[str]:
    """The `__init__` of a folder is empty, or names what users take from it: docstring, and imports from the folder."""
    for module, source in sources.items():
        for node in ast.parse(source).body if is_folder_mark(module) else ():
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            names = isinstance(node, ast.ImportFrom) and node.level == 1
            listed = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            if not (docstring or names or listed):
                yield f"{module} holds code: {ast.unparse(node)}"


def modules_hidden_by_names(sources: Sources) -> Iterator[str]:
    """A name in the root that is a module of it, too, means the one or the other after the order of imports."""
    named = {module.split(".")[0] for module in [*ROW_OF, *sources]}
    for node in ast.parse(sources.get("__init__", "")).body:
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if (name := alias.asname or alias.name) in named:
                yield f"the root re-exports {name}, which is a module's name"


RULES: tuple[Callable[[Sources], Iterator[str]], ...] = (
    unplaced_modules,
    imports_from_below,
    import_cycles,
    sides_that_meet,
    imports_for_types_only,
    code_in_folder_marks,
    modules_hidden_by_names,
)


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_its_layers(rule: Callable[[Sources], Iterator[str]]) -> None:
    sources = package_sources()
    assert "__init__" in sources
    assert list(rule(sources)) == []


@pytest.mark.parametrize(
    ("rule", "sources"),
    [
        (unplaced_modules, {"helpers": ""}),
        (unplaced_modules, {"helpers.xml": ""}),
        (imports_from_below, {"errors": "from .flows.flow import Flow"}),
        (imports_from_below, {"flows.flow": "def late() -> None:\n    from .. import turns"}),
        (imports_from_below, {"tools.tool": "from ..providers.model import Model"}),
        (imports_from_below, {"wire.native": "from ..testing.scripted import ScriptedModel"}),
        (imports_from_below, {"loops": "from . import Flow"}),
        (imports_from_below, {"loops": "import streamkit.cli"}),
        (imports_from_below, {"loops": "from .helpers import pause"}),
        (import_cycles, {"flows.flow": "from .channel import Channel", "flows.channel": "from .flow import Flow"}),
        (
            sides_that_meet,
            {"providers.http": "from ..history import recent", "history": "from .tools.tool import Tool"},
        ),
        (
            sides_that_meet,
            {"execution.execute": "from ..answers import answer", "answers": "from .providers.model import Model"},
        ),
        (imports_for_types_only, {"tools.tool": "if TYPE_CHECKING:\n    from .toolkit import Toolkit"}),
        (imports_for_types_only, {"tools.tool": "if typing.TYPE_CHECKING:\n    import rich"}),
        (code_in_folder_marks, {"wire.__init__": "LIMIT = 3"}),
        (code_in_folder_marks, {"wire.__init__": "from ..flows.flow import Flow"}),
        (modules_hidden_by_names, {"__init__": "from .loops import Next as loops"}),
    ],
)
def test_a_broken_rule_is_told(rule: Callable[[Sources], Iterator[str]], sources: Sources) -> None:
    assert list(rule(sources))


@pytest.mark.parametrize("rule", RULES)
def test_what_is_allowed_passes(rule: Callable[[Sources], Iterator[str]]) -> None:
    sources = {
        "errors": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .turns import Turn",
        "flows.flow": "import anyio\nfrom .channel import Channel",
        "flows.channel": "from ..errors import FlowError",
        "codec.__init__": "",
        "codec.sse": "",
        "providers.http": "from ..codec import sse\nfrom ..codec.sse import Sse\nfrom .model import Model",
        "testing.scripted": "from ..providers.model import Model",
        "__init__": "from .flows.flow import Flow",
    }
    assert list(rule(sources)) == []


# What is read


def package_sources() -> Sources:
    root = Path(__file__).parent.parent / "streamkit"
    return {
        ".".join(path.relative_to(root).with_suffix("").parts): path.read_text("utf-8") for path in root.rglob("*.py")
    }


def import_graph(sources: Sources) -> dict[str, set[str]]:
    """For each module that holds code, the modules of the package that it imports."""
    known = {*ROW_OF, *sources}
    return {
        module: {target for node in counted_nodes(ast.parse(source)) for target in targets_of(node, module, known)}
        for module, source in sources.items()
        if not is_folder_mark(module)
    }


def targets_of(node: ast.AST, module: str, known: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "streamkit":
                yield alias.name.removeprefix("streamkit").removeprefix(".") or "__init__"
    elif isinstance(node, ast.ImportFrom) and (base := imported_from(node, module)) is not None:
        for alias in node.names:
            submodule = f"{base}.{alias.name}".removeprefix(".")
            yield submodule if submodule in known else base or "__init__"


def imported_from(node: ast.ImportFrom, module: str) -> str | None:
    """The dotted name that `from … import` names, inside the package ("" is its root); None for other packages."""
    named = node.module.split(".") if node.module else []
    if node.level == 0:
        return ".".join(named[1:]) if named[:1] == ["streamkit"] else None
    folders = module.split(".")[:-1]
    return ".".join(folders[: len(folders) - node.level + 1] + named)


def counted_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only a type checker sees."""
    children = node.orelse if is_type_checking(node) else ast.iter_child_nodes(node)
    for child in children:
        yield child
        yield from counted_nodes(child)


def is_type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - seen
        seen |= new
        waiting.extend(new)
    return seen


def row_of(module: str) -> int | None:
    return ROW_OF.get(module, ROW_OF.get(f"{folder_of(module)}.*"))


def folder_of(module: str) -> str:
    return module.rpartition(".")[0]


def is_folder_mark(module: str) -> bool:
    return module.endswith(".__init__")
