"""How far something is: what tools send of their progress, as a number of a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import msgspec

DONE = ("done", "progress", "current", "completed", "processed", "finished", "received", "loaded", "number", "step")
TOTAL = ("total", "of")
PERCENT = ("percent", "percentage")
TEXT = ("message", "text", "status", "description")
MAX_KEYS = 24
"""Of a dict that may be a progress; one that has more is something else."""

Unit = Literal["", "bytes", "percent"]


class Bar(msgspec.Struct, frozen=True):
    """So much of a whole is done. text: what is said beside it."""

    done: float
    total: float
    text: str = ""
    unit: Unit = ""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(max(self.done / self.total, 0.0), 1.0) if _is_share(self.done, self.total) else 0.0

    @property
    def amount(self) -> str:
        """As a person reads it: `12.4 of 20.0 MB`, `3 of 40`, `62 %`; empty where the numbers say nothing."""
        if not _is_share(self.done, self.total):
            return ""
        if self.unit == "percent":
            return f"{self.done:.0f} %"
        if self.unit == "bytes":
            unit, size = next((each for each in _SIZES if self.total >= each[1]), _SIZES[-1])
            return f"{self.done / size:.1f} of {self.total / size:.1f} {unit}"
        return f"{self.done:,.12g} of {self.total:,.12g}"


_SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def progress_of(data: Any) -> Bar | str | None:
    """The progress that a record or a dict tells of: `done` and `total`, `number` and `of`, `bytes` and `total_bytes`,
    `percent`, and the like; in words where its total is None, so that nobody knows of how much. None for anything else.
    """
    get: Callable[[str], Any]
    if isinstance(data, dict):
        names = _names(tuple(data)) if len(data) <= MAX_KEYS else None
        get = data.get
    else:
        names = _names_of_type(type(data))  # type: ignore[arg-type]  # mypy takes type[Any] for unhashable
        get = partial(_attribute, data)
    if names is None:
        return None
    done: Any = get(names.done)
    total: Any = 100 if names.total is None else get(names.total)
    text = get(names.text) if names.text is not None else None
    text = text if isinstance(text, str) else ""
    if _is_share(done, total):
        return Bar(done, total, text, names.unit)
    return text or f"{done:,.12g}" if total is None and _is_number(done) else None


def _attribute(data: Any, name: str) -> Any:
    return getattr(data, name, None)


class _Names(NamedTuple):
    done: str
    total: str | None
    """None for a percentage."""
    text: str | None
    unit: Unit


@lru_cache(maxsize=256)
def _names_of_type(kind: Hashable) -> _Names | None:
    for attribute in ("__struct_fields__", "__dataclass_fields__", "model_fields", "_fields"):
        if (fields := getattr(kind, attribute, None)) is not None:
            return _names(tuple(fields))
    return None


@lru_cache(maxsize=256)
def _names(names: tuple[Any, ...]) -> _Names | None:
    texts = [name for name in names if isinstance(name, str)]
    pair = next(_pairs(texts), None)
    if pair is None:
        return None
    done, total = pair
    unit: Unit = "percent" if total is None else "bytes" if "bytes" in f"{done} {total}" else ""
    return _Names(done, total, next((name for name in TEXT if name in texts), None), unit)


def _pairs(names: list[str]) -> Iterator[tuple[str, str | None]]:
    for total in names:
        if (part := total.removeprefix("total_").removesuffix("_total")) != total and part in names:
            yield part, total
        if total in TOTAL or part != total:
            yield from ((done, total) for done in DONE if done in names)
    yield from ((name, None) for name in PERCENT if name in names)


def _is_share(done: Any, total: Any) -> bool:
    return _is_number(done) and _is_number(total) and total > 0


def _is_number(value: Any) -> bool:
    """Whether it can be counted with: no infinity, and no whole number that is too long for a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
