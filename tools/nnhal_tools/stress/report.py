"""The report of a stress run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

CUT_OFF = "CUT OFF"
"""The outcome of an action during which its session's process ended."""
CLOSED = "CLOSED"
"""The outcome of an action during which its session was closed."""


@dataclass(frozen=True)
class StressFinding:
    """A violation, with what is needed to reproduce it."""

    seed: int
    """Seed of the session."""
    thread: int
    """Number of the thread."""
    step: int
    """Number of the step."""
    action: str
    """Name of the action."""
    arguments: str
    """What the action was about."""
    text: str
    """What was got and what was expected."""

    def __str__(self) -> str:
        where = f"session seed {self.seed}, thread {self.thread}, step {self.step}"
        return f"{where}: {self.action} [{self.arguments}]: {self.text}"


@dataclass
class StressReport:
    """What a stress run did and found."""

    device: str
    """Name of the device."""
    seed: int
    """Seed of the run."""
    seconds: float = 0.0
    """Length of the run."""
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    """Counts by action and outcome."""
    endings: Counter[str] = field(default_factory=Counter)
    """Counts of sessions by how they ended."""
    findings: list[StressFinding] = field(default_factory=list)
    """The violations."""
    leftovers: list[str] = field(default_factory=list)
    """What the device still held afterwards."""
    resident_growth_bytes: int = 0
    """Growth of its memory in RAM after the warm-up."""

    @property
    def actions(self) -> int:
        """The number of actions that ended or were cut off."""
        return sum(counter.total() for counter in self.outcomes.values())

    @property
    def succeeded(self) -> float:
        """The share of actions that succeeded."""
        return sum(counter["NONE"] for counter in self.outcomes.values()) / max(1, self.actions)

    @property
    def did_nothing(self) -> bool:
        """Whether no action went through to its end, so that nothing is known of the device."""
        return all(counter.keys() <= {CUT_OFF, CLOSED} for counter in self.outcomes.values())

    @property
    def passed(self) -> bool:
        """Whether something was done, and there are neither violations nor leftovers."""
        return not (self.did_nothing or self.findings or self.leftovers)

    def count(self, action: str, outcome: str) -> None:
        """Count an action that has ended."""
        self.outcomes.setdefault(action, Counter())[outcome] += 1

    def as_dict(self) -> dict[str, object]:
        """The report for JSON."""
        return {
            "device": self.device,
            "seed": self.seed,
            "seconds": self.seconds,
            "actions": self.actions,
            "succeeded": self.succeeded,
            "outcomes": {action: dict(counter) for action, counter in sorted(self.outcomes.items())},
            "sessions": dict(self.endings),
            "violations": [vars(finding) for finding in self.findings],
            "leftovers": self.leftovers,
            "resident_growth_bytes": self.resident_growth_bytes,
        }
