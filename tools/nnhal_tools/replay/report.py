"""What a replay finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """A call that has not ended as in the recording."""

    call: str
    """Which: its method, its session, and when it was made."""
    what: str
    """What was got, and what the recording has."""
    model: int = 0
    """The prepared model that it was about, by its number in the recording; 0 for none."""
    copy: int = 1
    """In which of the copies that were replayed at once, from 1 on."""


@dataclass(slots=True)
class ReplayReport:
    """A replay."""

    recording: str
    device: str
    calls: int = 0
    """Calls that were made again."""
    compared_outputs: int = 0
    """Outputs, and values of buffers, that were compared with the recording's."""
    differences: list[Difference] = field(default_factory=list)
    declined: dict[int, str] = field(default_factory=dict)
    """Why the device declines prepared models, by their numbers."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many calls were not made, or not compared, by the reason."""
    origins: dict[int, str] = field(default_factory=dict)
    """From which operation on a model's values differ, by the number of the prepared model."""
    notes: list[str] = field(default_factory=list)
    """What the recording lacks."""

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "recording": self.recording,
            "device": self.device,
            "calls": self.calls,
            "compared_outputs": self.compared_outputs,
            "differences": [asdict(difference) for difference in self.differences],
            "declined": {str(model): reason for model, reason in self.declined.items()},
            "left_out": dict(self.left_out),
            "origins": {str(model): origin for model, origin in self.origins.items()},
            "notes": self.notes,
        }
