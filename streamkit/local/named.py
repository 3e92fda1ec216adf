"""A model by a name that a program was given, the one on this machine among them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ..errors import DefinitionError
from ..providers import named
from ..providers.model import Model
from .model import local_model


@asynccontextmanager
async def open_model(name: str, **own: Callable[[], Model]) -> AsyncIterator[Model]:
    """The model of a name, for as long as the block is open: `local` for the one on this machine, or `PROVIDER:MODEL`.

    own: makers of a program's own models, by the names that mean them: `open_model(name, scripted=scripted_model)`.
    Raises DefinitionError for a name that means none, and what `local_model` raises.
    """
    if name in own:
        yield own[name]()
    elif name == "local":
        async with local_model() as model:
            yield model
    elif ":" not in name:
        raise DefinitionError(f"{name!r} is not a model: write {', '.join(['local', *own])}, or PROVIDER:MODEL")
    else:
        yield named.model(name)
