"""For tests of programs that use streamkit: a scripted model, the grammar of events, recorded bodies and their cuts."""

from .cuts import every_cut
from .decoding import decode
from .grammar import GrammarError, check_grammar
from .journals import check_journal_store
from .scripted import ScriptedModel, call, interleave, stop

__all__ = [
    "GrammarError",
    "ScriptedModel",
    "call",
    "check_grammar",
    "check_journal_store",
    "decode",
    "every_cut",
    "interleave",
    "stop",
]
