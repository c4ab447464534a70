"""The text of ``nnhal.placement``: pins as ``MATCH=DEVICE``, with ``;`` or line ends between them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nnhal.codec.bounds import MAX_PINS
from nnhal_service.partition import PIN_FORMS, Pin
from nnhal_service.serving.errors import ErrorKind, ServingError

_ENTRY = re.compile(r"(?:\\[;\n]|[^;\n])+")
_KINDS = ("name", "op", "index")


def pins_of(text: str) -> tuple[Pin, ...]:
    r"""Parse pins. ``\;`` stands for a ``;`` in a name, and so for a line end. Raises INVALID_ARGUMENT."""
    pins = []
    entries = [entry for entry in _ENTRY.findall(text) if entry.strip()]
    if len(entries) > MAX_PINS:
        message = f"parameter nnhal.placement has {len(entries)} pins, expected at most {MAX_PINS}"
        raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
    for entry in entries:
        match, _, device = (part.strip() for part in entry.rpartition("="))
        kind, _, pattern = match.partition(":")
        if not (kind in _KINDS and pattern and device):
            raise ServingError(
                ErrorKind.INVALID_ARGUMENT,
                f"parameter nnhal.placement has {entry.strip()!r}, expected MATCH=DEVICE with ';' between; MATCH is "
                f"{PIN_FORMS}",
            )
        pins.append(Pin(re.sub(r"\\([;\n])", r"\1", match), device))
    return tuple(pins)


def text_of(pins: Sequence[Pin]) -> str:
    """Return the text of which ``pins_of`` makes the same pins."""
    return "; ".join(f"{_written(pin.match)}={pin.device}" for pin in pins)


def _written(match: str) -> str:
    if match[-1:].isspace():  # it would be taken for space around the entry
        match = f"{match[:-1]}[{match[-1]}]"
    return re.sub(r"([;\n])", r"\\\1", match)
