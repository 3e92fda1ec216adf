"""Cuts of bytes: what a transport may do to a body. The result of a decoder must not depend on them."""

from __future__ import annotations

import random

RANDOM_CUTTINGS = 20


def every_cut(data: bytes) -> list[list[bytes]]:
    """The same bytes, cut in many ways.

    Whole; one byte at a time; by lines; in two at every place (of long data at 200 places spread over it); and in
    random pieces, some of them empty, from fixed seeds.
    """
    single_bytes = [data[at : at + 1] for at in range(len(data))]
    in_two = [[data[:at], data[at:]] for at in range(1, len(data), 1 + len(data) // 200)]
    at_random = [random_cut(data, seed) for seed in range(RANDOM_CUTTINGS)]
    return [[data], single_bytes, data.splitlines(keepends=True), *in_two, *at_random]


def random_cut(data: bytes, seed: int) -> list[bytes]:
    """The same bytes in random pieces, some of them empty; the same pieces for the same seed."""
    chance = random.Random(seed)
    longest = chance.choice((2, 7, 50, 400, 4000))
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        size = chance.randint(0, longest)
        pieces.append(data[at : at + size])
        at += size
    return pieces
