"""How a decoder ends: it decodes one stream, once."""

from __future__ import annotations

from ..errors import DecodeError, DecoderClosed


class DecoderOnce:
    """A decoder that is closed by the end of its stream, or by an error in it.

    _failure: kept where something good came before the broken place: that is given first, and the next call raises.
    """

    def __init__(self) -> None:
        self._failure: DecodeError | None = None
        self._closed = False

    def _check_open(self) -> None:
        """Raise the failure that was kept; DecoderClosed after that, and after the end."""
        if self._closed:
            raise DecoderClosed("this decoder has ended or failed: a new stream needs a new one")
        if self._failure is not None:
            self._closed = True
            raise self._failure
