"""Sizes of memory as people write them."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "": 1,
    "B": 1,
    "bytes": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_SIZE = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[A-Za-z]*)\s*", re.ASCII)


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``240KiB``, ``1.5 MiB``, ``500 kB`` or ``65536``.

    Raises:
        ValueError: it is no size of at least one whole byte.
    """
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match["unit"]) if match else None
    if match is None or unit is None:
        raise ValueError(
            f"{text!r} is no size: expected a number of bytes, or of kB, MB, GB, KiB, MiB or GiB, such as 240KiB"
        )
    size = Fraction(match["number"]) * unit
    if size.denominator != 1 or size < 1:
        raise ValueError(f"{text!r} is no size: it is {float(size):g} bytes, expected a whole number of at least 1")
    return int(size)
