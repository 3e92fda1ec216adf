"""What a server writes on its stdout, line by line."""

import pytest

from streamkit.mcp.lines import LineDecoder

SAID = "h\N{LATIN SMALL LETTER E WITH ACUTE}\n\n\N{GRINNING FACE}\r\n\u2028\nrest".encode()


CUTS = [[SAID[:at], SAID[at:]] for at in range(len(SAID))]


@pytest.mark.parametrize("pieces", [[bytes([each]) for each in SAID], *CUTS])
def test_only_whole_lines_come_and_what_is_left_at_the_end(pieces: list[bytes]) -> None:
    decoder = LineDecoder()
    told = [text for piece in pieces if (text := decoder.decode(piece))]
    assert all(text.endswith("\n") for text in told)
    assert "".join(told) + decoder.decode(b"", final=True) == SAID.decode()
    assert decoder.decode(b"next\n") == "next\n"


def test_a_byte_that_is_no_utf8_is_dealt_with_as_asked() -> None:
    assert LineDecoder("replace").decode(b"a\xff\n") == "a\N{REPLACEMENT CHARACTER}\n"
    with pytest.raises(UnicodeDecodeError):
        LineDecoder().decode(b"a\xff\n")


def test_what_was_begun_is_forgotten_at_a_reset() -> None:
    decoder = LineDecoder()
    decoder.decode(b"begun \xf0\x9f")
    decoder.reset()
    assert decoder.decode(b"new\n") == "new\n"
