"""Pins that are tried: they are in the address of a page, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

MOST_PINS = 256
"""Pins that are tried at a time: the page of a plan leads for each of them to the page without it."""
PinPair = tuple[str, str]
"""What is pinned, and the device."""


@dataclass(frozen=True, slots=True)
class PinChoice:
    """A plan that is tried: its pins, in order, and the devices that may be used; all if there are none."""

    pins: tuple[PinPair, ...]
    devices: tuple[str, ...] = ()

    @classmethod
    def of(cls, pins: Sequence[str], devices: Sequence[str]) -> PinChoice | None:
        """Read pins of the form MATCH=DEVICE; None if no plan is tried. An empty pin says that one is, without pins.

        Raises ValueError.
        """
        if not pins and not devices:
            return None
        if len(pins) > MOST_PINS or len(devices) > MOST_PINS:
            raise ValueError(f"{len(pins)} pins and {len(devices)} devices, expected at most {MOST_PINS} of each")
        return cls(tuple(map(_pair, filter(None, pins))), tuple(dict.fromkeys(filter(None, devices))))

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """The part of a page's address that says the same."""
        pins = [("pin", f"{match}={device}") for match, device in self.pins] or [("pin", "")]
        return (*pins, *(("with", name) for name in self.devices))

    def pinned(self, numbers: Iterable[int], device: str) -> PinChoice:
        """Return the choice with more operations pinned, by their numbers: the last pin of an operation counts."""
        added = [(match, device) for match in _ranges(sorted(set(numbers)))]
        matches = {match for match, _ in added}
        return PinChoice((*(pin for pin in self.pins if pin[0] not in matches), *added), self.devices)

    def without(self, number: int) -> PinChoice:
        """Return the choice without one of its pins."""
        return PinChoice(self.pins[:number] + self.pins[number + 1 :], self.devices)


def chosen_numbers(checked: Sequence[str], first: str, last: str, count: int) -> list[int]:
    """Return the operations that are checked, and those of a range, of ``count`` in all. Raises ValueError."""
    numbers = [_number(text, count) for text in checked]
    if first or last:
        low, high = _number(first or last, count), _number(last or first, count)
        numbers += range(min(low, high), max(low, high) + 1)
    if not numbers:
        raise ValueError("no operation is chosen: check some, or give a range")
    return numbers


def _number(text: str, count: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) >= count:
        raise ValueError(f"operation {text[:40]!r}, expected a number from 0 to {count - 1}")
    return int(text)


def _ranges(numbers: Sequence[int]) -> Iterable[str]:
    """Yield matches of numbers that rise: one for each row of neighbours."""
    for _, pairs in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        row = [number for _, number in pairs]
        yield f"index:{row[0]}" if len(row) == 1 else f"index:{row[0]}-{row[-1]}"


def _pair(text: str) -> PinPair:
    match, _, device = text.rpartition("=")
    if not match or not device:
        raise ValueError(f"pin {text[:80]!r}, expected MATCH=DEVICE")
    return match, device
