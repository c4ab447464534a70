"""Mutations of bytes that know nothing of their structure."""

from __future__ import annotations

import struct
from random import Random

_NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1)
_WIDTHS = ((1, "<B"), (2, "<H"), (4, "<I"), (8, "<Q"))
_MOST_REPEATED = 300


def mutate_octets(data: bytes, source: Random) -> bytes:
    """Change, insert, remove, repeat or move some bytes."""
    if not data:
        return source.randbytes(source.randint(1, 16))
    changed = bytearray(data)
    start = source.randrange(len(data))
    end = min(len(data), start + source.choice((1, 1, 2, 4, 8, 16, 64)))
    match source.randrange(7):
        case 0:
            changed[start] ^= 1 << source.randrange(8)
        case 1:
            changed[start] = source.randrange(256)
        case 2:
            width, form = source.choice(_WIDTHS)
            number = source.choice(_NUMBERS) & (256**width - 1)
            changed[start : start + width] = struct.pack(form, number)
        case 3:
            del changed[start:end]
        case 4:
            changed[start:start] = source.randbytes(end - start)
        case 5:
            changed[end:end] = data[start:end] * source.choice((1, 1, 2, 8, _MOST_REPEATED))
        case _:
            del changed[start:]
    return bytes(changed)


def mutate_words(data: bytes, source: Random) -> bytes:
    """Change one aligned number of 32 bits: to an extreme, to one of its neighbours, or to one from elsewhere.

    That is what offsets, counts, dimensions and indexes of binary files are.
    """
    if len(data) < 8 or source.random() < 0.2:
        return mutate_octets(data, source)
    changed = bytearray(data)
    place = source.randrange(len(data) // 4) * 4
    other = source.randrange(len(data) // 4) * 4
    (number,) = struct.unpack_from("<I", data, place)
    match source.randrange(4):
        case 0:
            number = source.choice(_NUMBERS)
        case 1:
            number += source.choice((-8, -4, -1, 1, 4, 8))
        case 2:
            number = source.randrange(len(data))
        case _:
            (number,) = struct.unpack_from("<I", data, other)
    struct.pack_into("<I", changed, place, number & (2**32 - 1))
    return bytes(changed)
