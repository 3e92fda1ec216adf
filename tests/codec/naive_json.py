"""What `PartialJson` is compared with: slow, recursive, and written without a look at the parser."""

import json
import re
from collections.abc import Callable
from typing import Any

from streamkit.codec.surrogates import whole


class End(Exception):
    """The text ends here, and could go on."""


class Fault(Exception):
    """Here stands what no JSON text has in this place."""


class Naive:
    """What is known of a JSON text that may end anywhere, read from its beginning to its end.

    value: what there is of it, {} where there is nothing. fault: the place of the first impossible character. whole:
    whether the text may end here.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.value: Any = {}
        self.fault: int | None = None
        self.whole = False
        try:
            self.read_value(self.set_top)
            self.skip_blanks()
            if self.at < len(text):
                raise Fault
            self.whole = True
        except End:
            pass
        except Fault:
            self.fault = self.at

    def set_top(self, value: Any) -> None:
        self.value = {} if value is None else value

    def peek(self) -> str:
        if self.at == len(self.text):
            raise End
        return self.text[self.at]

    def take(self, allowed: str) -> str:
        character = self.peek()
        if character not in allowed:
            raise Fault
        self.at += 1
        return character

    def skip_blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\n\r":
            self.at += 1

    def read_value(self, put: Callable[[Any], None]) -> None:
        self.skip_blanks()
        first = self.peek()
        if first == "{":
            self.read_object(put)
        elif first == "[":
            self.read_array(put)
        elif first == '"':
            self.read_string(put)
        elif first in "-0123456789":
            self.read_number(put)
        else:
            for word, value in (("true", True), ("false", False), ("null", None)):
                if first == word[0]:
                    for character in word:
                        self.take(character)
                    put(value)
                    return
            raise Fault

    def read_object(self, put: Callable[[Any], None]) -> None:
        self.take("{")
        fields: dict[str, Any] = {}
        put(fields)
        self.skip_blanks()
        while self.peek() != "}":
            if fields or self.text[self.at] == ",":
                self.take("," if fields else "")
                self.skip_blanks()
            key = self.read_string(lambda _: None)
            self.skip_blanks()
            self.take(":")
            self.read_value(lambda value, key=key: fields.__setitem__(key, value))  # type: ignore[misc]
            self.skip_blanks()
        self.take("}")

    def read_array(self, put: Callable[[Any], None]) -> None:
        self.take("[")
        items: list[Any] = []
        put(items)
        self.skip_blanks()
        if self.peek() == "]":
            self.take("]")
            return
        while True:
            place = len(items)
            self.read_value(lambda value, place=place: items.__setitem__(slice(place, None), [value]))  # type: ignore[misc]
            self.skip_blanks()
            if self.take(",]") == "]":
                return

    def read_string(self, put: Callable[[Any], None]) -> str:
        self.take('"')
        text = ""
        put("")
        while (character := self.peek()) != '"':
            if character < " ":
                raise Fault
            self.at += 1
            text += self.read_escape() if character == "\\" else character
            put(whole(text[:-1] if "\ud800" <= text[-1] <= "\udbff" else text))
        self.at += 1
        put(whole(text))
        return str(whole(text))

    def read_escape(self) -> str:
        kind = self.take('"\\/bfnrtu')
        if kind == "u":
            return chr(int("".join(self.take("0123456789abcdefABCDEF") for _ in range(4)), 16))
        return str(json.loads(f'"\\{kind}"'))

    def read_number(self, put: Callable[[Any], None]) -> None:
        start = self.at
        beginning = r"-?|-?(0|[1-9][0-9]*)(\.?|\.[0-9]+([eE][+-]?[0-9]*)?|[eE][+-]?[0-9]*)"
        while self.at < len(self.text) and re.fullmatch(beginning, self.text[start : self.at + 1]):
            self.at += 1
        number = self.text[start : self.at]
        ended = self.at < len(self.text)
        if not number[-1].isdigit():
            raise Fault if ended else End
        if not ended:
            self.whole = start == 0 or not self.text[:start].strip(" \t\n\r")
            raise End
        put(json.loads(number))
