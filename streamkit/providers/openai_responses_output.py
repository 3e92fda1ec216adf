"""The output of a response while it is written: its items, what was sent of them, and what is still missing.

Whatever is told whole (a text, a call, an item, the last response) is compared with the pieces that came before. Its
text is never sent twice, and never lost; a call is ended once, unless it is told in another way later.
"""

from __future__ import annotations

import logging
from typing import Any

from ..items import ProviderTool, UnknownItem
from ..parts import InputDelta, InputEnd, InputOpaque, InputStart, NextItem, Part, ReasoningOpaque, TextOpaque
from ..tool_input import as_text
from .odd_fields import text_or_none
from .openai_responses_items import (
    CALLS,
    DIALECT,
    PART_OF,
    PARTS,
    OutputItem,
    Place,
    ids_of,
    input_of,
    is_item,
    list_of,
    of_the_provider,
    opaque_of,
    scalar,
    text_of,
    texts_of,
)

logger = logging.getLogger("streamkit")


class Output:
    """All items, in the order in which they began. What is added to `parts` is what the decoder gives."""

    def __init__(self) -> None:
        self.items: list[OutputItem] = []
        self._placed: dict[str, dict[Place, OutputItem]] = {}  # by kind: some servers have one index for all
        self._by_call_id: dict[tuple[str, Place], OutputItem] = {}
        self._writing: OutputItem | None = None  # whose text goes on, if more of it comes

    @property
    def has_whole_calls(self) -> bool:
        """Whether each call, if there is any, was said to be whole."""
        return all(item.ended_with is not None or item.is_done for item in self.items if item.kind in CALLS)

    @property
    def has_cut_calls(self) -> bool:
        return any(item.is_cut for item in self.items)

    # Which item

    def find(self, kind: str, index: Place, item_id: Place) -> OutputItem | None:
        """The item of an event: that of its index, else that of its id; without an index the one begun last.

        item_id: of the item, or of the call that it is.
        """
        placed = self._placed.get(kind)
        if not placed:
            return None
        item = placed.get(item_id if index is None else index) or placed.get(item_id)
        if item is None and index is None:
            item = self._by_call_id.get((kind, item_id))
        if item is None and index is None:
            last = next(reversed(placed.values()))
            return None if last.is_done else last
        return item

    def written(self, kind: str, index: Place, item_id: Place, parts: list[Part]) -> OutputItem:
        """The same; where none was added, one begins."""
        told = {} if item_id is None else {"id": item_id}
        return self.find(kind, index, item_id) or self._begin(kind, index, told, parts)

    def add(self, index: Place, told: dict[str, Any], parts: list[Part]) -> None:
        """An item begins, unless it is told once more."""
        item = self._placed.get(told["type"], {}).get(_place(index, told))
        same = item is not None and all(item.told.get(key) == told.get(key) for key in ("id", "call_id"))
        if item is not None and not item.is_done and item.kind in CALLS and item.call_id is None and item.name is None:
            item.told = told  # pieces of it came before
            self.name_call(item, told, parts)
        elif item is None or item.is_done or not same:
            self._begin(told["type"], index, told, parts)

    def _begin(self, kind: str, index: Place, told: dict[str, Any], parts: list[Part]) -> OutputItem:
        item = OutputItem(len(self.items), kind, told)
        self.items.append(item)
        placed = self._placed.setdefault(kind, {})
        is_next_message = kind == "message" and self._writing is not None and self._writing.kind == kind
        if is_next_message or kind == "reasoning":
            parts.append(NextItem())
        place = _place(index, told)
        placed.pop(place, None)  # so that it is the last
        placed[place] = item
        if kind in CALLS:
            self._writing = None
            parts.append(InputStart(item.number, item.call_id, item.name, custom=kind == "custom_tool_call"))
            _keep_opaque_of_call(item, told, parts)
            if item.call_id is not None:
                self._by_call_id.setdefault((kind, item.call_id), item)
        return item

    # Its text

    def write(self, item: OutputItem, part: str, index: Place, text: str, parts: list[Part]) -> list[str]:
        """The next piece of a part of a message or of reasoning. Gives the pieces of it, for those that follow."""
        pieces = item.texts.get(part, {}).get(index)
        if pieces is None:
            if item.kind == "reasoning" and item.texts:  # what stands apart stays apart
                parts.append(NextItem())
            pieces = item.texts.setdefault(part, {}).setdefault(index, [])
        pieces.append(text)
        parts.append(PART_OF[part](text))
        if part != "refusal":  # which is no item
            self._writing = item
        return pieces

    def complete(self, item: OutputItem, part: str, index: Place, told: str, parts: list[Part]) -> None:
        """All of the text of a part is told: what its pieces lack is one more."""
        known = item.texts.get(part, {})
        if known and index not in known and (index is None or None in known):
            index = next(reversed(known))
        sent = "".join(known.get(index, ()))
        if not told.startswith(sent):
            logger.warning("the pieces of a text are not what the provider says that it is")
        elif len(told) > len(sent):
            self.write(item, part, index, told[len(sent) :], parts)

    def tell_arguments(self, item: OutputItem, told: Any, parts: list[Part]) -> None:
        """All arguments of a call are told. That ends it, unless its id or its name has still to come."""
        if item.call_id is not None and item.name is not None:
            self._end_call(item, told, parts)
        elif not item.has_pieces and (text := as_text(told)):
            item.has_pieces = True
            parts.append(InputDelta(text, item.number))

    def _end_call(self, item: OutputItem, told: Any, parts: list[Part]) -> None:
        """Where a call has no text at all, the last response may still tell it: that is waited for."""
        text = as_text(told)
        if (not text and not item.has_pieces) or (item.ended_with is not None and text in ("", item.ended_with)):
            return
        item.ended_with = text
        parts.append(InputEnd(item.number, arguments=text))

    # All of it

    def read_done(self, index: Place, told: dict[str, Any], parts: list[Part]) -> None:
        """An item is said to be done, and told whole."""
        kind, item_id, call_id = told["type"], scalar(told.get("id")), text_or_none(told.get("call_id"))
        item = self.find(kind, index, item_id)
        if call_id is not None and (item is None or item.call_id not in (None, call_id)):
            known = self._by_call_id.get((kind, call_id), item)
            item = item if known is not None and known.is_done and _has_other_id(known, told) else known
        if item is None or (item.is_done and _is_another(item, index, told)):
            item = self._begin(kind, index, told, parts)
        self._read(item, told, parts)

    def read_all(self, output: list[Any], parts: list[Part]) -> None:
        """The last response repeats its output. A call that it tells twice, with its ids, is one."""
        told: dict[int, dict[str, Any]] = {}
        calls: dict[tuple[Place, ...], dict[str, Any]] = {}  # by their ids
        for place, item in enumerate(output):
            if not is_item(item):
                continue
            ids = ids_of(item) if item["type"] in CALLS else ()
            if not ids or calls.get(ids) != item:
                told[place] = calls[ids] = item
        known = self._known(told)
        for place, item in told.items():
            self._read(known.get(place) or self._begin(item["type"], place, item, parts), item, parts)

    def _known(self, told: dict[int, dict[str, Any]]) -> dict[int, OutputItem]:
        """The items that are told, by their place in the last response: found by id, else by place, else in order."""
        known: dict[int, OutputItem] = {}
        free = {item.number: item for item in self.items}
        by_id = {(item.kind, known_id): item for item in reversed(self.items) for known_id in item.ids}

        def take(place: int, item: OutputItem | None) -> None:
            if item is not None and place not in known and free.pop(item.number, None) is not None:
                known[place] = item

        def here(place: int, item: dict[str, Any]) -> OutputItem | None:
            found = self._placed.get(item["type"], {}).get(place)
            return found if found is None or found.name in (None, text_or_none(item.get("name"))) else None

        for place, item in told.items():
            for told_id in ids_of(item):
                at_place = here(place, item)
                is_same = at_place is not None and told_id in at_place.ids
                take(place, at_place if is_same else by_id.get((item["type"], told_id)))
        for place, item in told.items():
            take(place, here(place, item))
        in_order = {kind: [item for item in reversed(free.values()) if item.kind == kind] for kind in PARTS}
        for place, item in told.items():
            rest = in_order.get(item["type"])
            if rest and place not in known and texts_of(item).startswith(rest[-1].text):
                take(place, rest.pop())
        return known

    def read_added(self, parts: list[Part]) -> None:
        """The response is complete: what was never told otherwise is what it was when it was added."""
        for item in self.items:
            if not item.is_done and item.kind in ("message", *CALLS):
                self._read(item, item.told, parts)
            elif item.kind in CALLS and item.ended_with is None and not item.is_cut:
                self._end_call(item, item.told.get(CALLS[item.kind]), parts)

    def _read(self, item: OutputItem, told: dict[str, Any], parts: list[Part]) -> None:
        """An item as a whole, maybe once more."""
        is_first, item.is_done = not item.is_done, True
        if item.kind in PARTS:
            self._read_texts(item, told, is_first, parts)
            if is_first:
                self._keep_opaque(item, told, parts)
        elif item.kind in CALLS:
            self._read_call(item, told, is_first, parts)
        elif is_first:
            self._writing = None
            parts.append(of_the_provider(item, told))

    def _read_texts(self, item: OutputItem, told: dict[str, Any], is_first: bool, parts: list[Part]) -> None:
        texts: dict[str, dict[int, str]] = {}
        annotations: list[Any] = []
        for field in ("summary", "content"):
            for index, part in enumerate(list_of(told.get(field))):
                kind, text = text_of(part)
                if kind in PARTS[item.kind]:
                    texts.setdefault(kind, {})[index] = text
                    annotations += list_of(part.get("annotations"))
                elif is_first:
                    parts.append(UnknownItem(part))
        for kind, by_index in texts.items():
            if None in item.texts.get(kind, {}):  # its pieces did not say of which part they are
                self.complete(item, kind, None, "".join(by_index.values()), parts)
                continue
            for index, text in by_index.items():
                self.complete(item, kind, index, text, parts)
        for annotation in annotations[item.annotations :]:
            self.annotate(item, annotation, parts)

    def annotate(self, item: OutputItem, annotation: object, parts: list[Part]) -> None:
        item.annotations += 1
        parts.append(UnknownItem(annotation))

    def _keep_opaque(self, item: OutputItem, told: dict[str, Any], parts: list[Part]) -> None:
        if item.kind == "message":
            opaque = opaque_of(told)
            if opaque and self._writing is item:
                parts.append(TextOpaque(opaque, DIALECT))
                self._writing = None
            return
        if next(reversed(self._placed["reasoning"].values())) is not item:
            parts += [NextItem(), ReasoningOpaque(told, DIALECT), NextItem()]  # not to the one that has begun since
            self._writing = None
            return
        parts.append(ReasoningOpaque(told, DIALECT))
        if not item.texts:
            self._writing = item

    def _read_call(self, item: OutputItem, told: dict[str, Any], is_first: bool, parts: list[Part]) -> None:
        self.name_call(item, told, parts)
        if is_first:
            _keep_opaque_of_call(item, told, parts)
        item.is_cut = told.get("status") == "incomplete"
        if not item.is_cut:
            self._end_call(item, told.get(CALLS[item.kind]), parts)

    def name_call(self, item: OutputItem, told: dict[str, Any], parts: list[Part]) -> None:
        call_id = text_or_none(told.get("call_id")) or text_or_none(told.get("id")) if item.call_id is None else None
        name = text_or_none(told.get("name")) if item.name is None else None
        if call_id or name:
            item.call_id, item.name = item.call_id or call_id, item.name or name
            parts.append(InputDelta("", item.number, call_id, name))

    def tell_input(self, kind: str, index: Place, item_id: Place, text: object, parts: list[Part]) -> None:
        """The input of a tool of the provider is whole; its output comes when the item is done."""
        item = self.find(kind, index, item_id)
        if item is not None and not item.is_done and not item.input_told:
            item.input_told = True
            self._writing = None
            parts.append(ProviderTool(item.tool_id, item.name or kind, input_of(text), kind=kind))


def _is_another(item: OutputItem, index: Place, told: dict[str, Any]) -> bool:
    """Whether what is done is not this item once more. Some servers have one index for all."""
    ids = ids_of(told)
    return set(ids).isdisjoint(item.ids) if ids and item.ids else index is None


def _has_other_id(item: OutputItem, told: dict[str, Any]) -> bool:
    """Two calls may have one call_id; a call that is told once more keeps its id or its index."""
    item_id = scalar(told.get("id"))
    return item_id is not None and item.item_id is not None and item_id != item.item_id


def _keep_opaque_of_call(item: OutputItem, told: dict[str, Any], parts: list[Part]) -> None:
    if opaque := opaque_of(told):
        parts.append(InputOpaque(opaque, DIALECT, item.number))


def _place(index: Place, told: dict[str, Any]) -> Place:
    return scalar(told.get("id")) if index is None else index
