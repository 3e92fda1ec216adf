"""For tests of programs that use streamkit: a scripted model, the grammar of events, cuts of bytes."""

from .cuts import every_cut
from .grammar import GrammarError, check_grammar
from .scripted import ScriptedModel, call, interleave, stop

__all__ = ["GrammarError", "ScriptedModel", "call", "check_grammar", "every_cut", "interleave", "stop"]
