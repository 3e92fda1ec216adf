"""The plain data of a history."""

import msgspec
import pytest

from streamkit.items import History, Image, ToolCall, image, user

JPEG = b"\xff\xd8\xff\xe0rest"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (JPEG, "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_the_kind_of_an_image_is_told_from_its_bytes(data: bytes, kind: str) -> None:
    assert image(data).media_type == kind


@pytest.mark.parametrize("source", [b"", b"RIFF\0\0\0\0WAVE", b"BM", "image.png", "file:///etc/passwd"])
def test_what_is_no_image_is_refused(source: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"image|PNG"):
        image(source)


def test_no_json_makes_an_image_of_another_address() -> None:
    with pytest.raises(msgspec.ValidationError, match="https://"):
        msgspec.json.decode(b'{"type": "image", "url": "file:///etc/passwd"}', type=Image)


def test_an_image_goes_through_json_and_does_not_fill_the_screen() -> None:
    history: History = (user("What is this?", image(JPEG)),)
    assert msgspec.json.decode(msgspec.json.encode(history), type=History) == history
    assert repr(image(JPEG)) == "Image(8 bytes of image/jpeg)"


def test_what_is_no_text_is_no_message() -> None:
    with pytest.raises(TypeError, match=r"a message is text, such as user\('Hi'\), not a list"):
        user(["Hi"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a picture is image\(data\) or image\('https://…'\), not a bytes"):
        user("What is this?", JPEG)  # type: ignore[arg-type]


def test_the_local_id_of_a_call_names_its_turn_and_its_place_there() -> None:
    assert ToolCall("a", "f", "{}", "turn_1", 2).local_id == "turn_1.2"
