"""A real model on this machine, without a key; and any model by its name."""

from .model import local_model
from .named import open_model

__all__ = ["local_model", "open_model"]
