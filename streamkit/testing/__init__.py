"""For tests of programs that use streamkit.

A scripted model, the grammar of events, histories that providers take, recorded bodies and their cuts; and what models,
decoders and journal stores of your own have to keep.
"""

from .cuts import every_cut
from .decoders import check_decoder
from .decoding import decode
from .grammar import GrammarError, check_grammar
from .histories import check_history
from .journals import check_journal_store
from .legality import IllegalHistory
from .models import check_model
from .scripted import ScriptedModel, call, interleave, stop
from .turns import check_turn

__all__ = [
    "GrammarError",
    "IllegalHistory",
    "ScriptedModel",
    "call",
    "check_decoder",
    "check_grammar",
    "check_history",
    "check_journal_store",
    "check_model",
    "check_turn",
    "decode",
    "every_cut",
    "interleave",
    "stop",
]
