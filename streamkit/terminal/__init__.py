"""A run in a terminal, a pipe or a log; and what a program around it says when it ends."""

from .blocks import Bar
from .program import run_program
from .screen import Screen
from .showing import open_screen, show
from .words import on_one_line, shown, visible

__all__ = ["Bar", "Screen", "on_one_line", "open_screen", "run_program", "show", "shown", "visible"]
