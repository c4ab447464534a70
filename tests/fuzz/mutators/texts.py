"""Mutations of texts by their tokens: JSON, TOML, text of protobuf, heads of HTTP."""

from __future__ import annotations

import re
from random import Random

from tests.fuzz.mutators.octets import mutate_octets
from tests.support.json_extremes import TEXTS

_TOKENS = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[\w.+-]+|\s+|.', re.DOTALL)
_MOST_TOKENS = 40
_LONGEST_EXTREME = 6000
_EXTREMES = [text.encode("utf-8", "surrogatepass") for text in TEXTS if len(text) <= _LONGEST_EXTREME]


def mutate_text(data: bytes, source: Random) -> bytes:
    """Replace, remove, repeat or swap tokens."""
    tokens = _TOKENS.findall(data)
    if not tokens or source.random() < 0.1:
        return mutate_octets(data, source)
    first, second = sorted((source.randrange(len(tokens)), source.randrange(len(tokens))))
    second = min(second, first + _MOST_TOKENS)
    match source.randrange(5):
        case 0:
            tokens[first] = source.choice(_EXTREMES)
        case 1:
            tokens[first] = tokens[second]
        case 2:
            del tokens[first : second + 1]
        case 3:
            tokens[second:second] = tokens[first : second + 1] * source.choice((1, 1, 2, 20))
        case _:
            tokens[first], tokens[second] = tokens[second], tokens[first]
    return b"".join(tokens)
