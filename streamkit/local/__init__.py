"""A real model on this machine, without a key."""

from .model import local_model

__all__ = ["local_model"]
