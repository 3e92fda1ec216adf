"""UTF-8 that comes line by line, for what a server writes on its stdout.

The SDK adds each piece that it reads to what it has, and looks for the ends of lines in all of it again: a result of
50 MB takes it a quarter of a minute. What it lets us choose on this way is the encoding, so pieces are joined there.
"""

from __future__ import annotations

import codecs

ENCODING = "streamkit_lines"


class LineDecoder(codecs.IncrementalDecoder):
    """Gives the lines that are whole, with their ends; what is left at the end of all comes with it."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._characters = codecs.getincrementaldecoder("utf-8")(errors)
        self._begun: list[str] = []

    def decode(self, given: bytes, final: bool = False) -> str:  # type: ignore[override]  # their type is of stubs alone
        text = self._characters.decode(given, final)
        whole, end, rest = (text, "", "") if final else text.rpartition("\n")
        if not end and not final:
            self._begun.append(rest)
            return ""
        lines = "".join((*self._begun, whole, end))
        self._begun = [rest]
        return lines

    def reset(self) -> None:
        self._characters.reset()
        self._begun = []


def _found(name: str) -> codecs.CodecInfo | None:
    if name != ENCODING:
        return None
    return codecs.CodecInfo(codecs.utf_8_encode, codecs.utf_8_decode, incrementaldecoder=LineDecoder, name=name)


codecs.register(_found)
