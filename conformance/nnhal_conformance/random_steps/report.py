"""Findings of random steps about a device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_HEAD = """\
import sys

from nnhal_conformance.random_steps.running import steps_of

state = steps_of(sys.argv[1])  # the directory of a running device
"""


@dataclass
class Walk:
    """Random steps that were taken, and what they have shown."""

    taken: Counter[str] = field(default_factory=Counter)
    """Counts of each step."""
    not_offered: Counter[str] = field(default_factory=Counter)
    """Count of steps about something that the device does not offer, and need not."""
    broken: str = ""
    """Got and expected behaviour of the device; empty if it has kept the contract."""
    steps: list[str] = field(default_factory=list)
    """The fewest steps that have shown it; none if it was the growth of the device's memory."""
    comes_again: bool = True
    """True if these steps show it each time that they are taken."""

    @property
    def script(self) -> str:
        """The steps as a program in Python, whose argument is a device's directory."""
        return _HEAD + "".join(f"{line}\n" for line in (*self.steps, "state.teardown()"))
