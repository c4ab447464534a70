"""Shapes of inputs as a user writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input of texts such as ``x=1,3,224,224``. Raises ValueError."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, shape = text.rpartition("=")
        if not equals or not name or not re.fullmatch(r"[1-9]\d*([,x][1-9]\d*)*|", shape):
            raise ValueError(f"--shape: got {text!r}, expected INPUT=1,3,224,224")
        if name in found:
            raise ValueError(f"--shape: got {name!r} twice, expected each input once")
        found[name] = tuple(int(length) for length in re.split("[,x]", shape) if length)
    return found
