"""What a backend of your own is made of: `from streamkit.backends import InputStart, run_turn, …`.

A `Decoder` says in parts what it reads; `decoded` feeds it the pieces of a body; `run_turn` makes a turn of the parts.
`TextDelta`, `ReasoningDelta`, `RefusalDelta`, `ProviderTool` and `UnknownItem` are parts as they are.
"""

from .parts import (
    Failed,
    Finished,
    InputDelta,
    InputEnd,
    InputOpaque,
    InputStart,
    NextItem,
    Part,
    ReasoningOpaque,
    TextOpaque,
    UsageReported,
    WholeCall,
)
from .providers.model import Decoder, decoded, run_turn
from .tool_input import Bounds

__all__ = [
    "Bounds",
    "Decoder",
    "Failed",
    "Finished",
    "InputDelta",
    "InputEnd",
    "InputOpaque",
    "InputStart",
    "NextItem",
    "Part",
    "ReasoningOpaque",
    "TextOpaque",
    "UsageReported",
    "WholeCall",
    "decoded",
    "run_turn",
]
