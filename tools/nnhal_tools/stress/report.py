"""The report of a stress run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StressFinding:
    """A violation, with what is needed to reproduce it."""

    seed: int
    thread: int
    step: int
    action: str
    arguments: str
    text: str

    def __str__(self) -> str:
        where = f"session seed {self.seed}, thread {self.thread}, step {self.step}"
        return f"{where}: {self.action} [{self.arguments}]: {self.text}"


@dataclass
class StressReport:
    """Counts of actions and of sessions, violations, and leftovers."""

    device: str
    seed: int
    seconds: float = 0.0
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)
    findings: list[StressFinding] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    resident_growth_bytes: int = 0

    @property
    def actions(self) -> int:
        """The number of actions that ended or were cut off."""
        return sum(counter.total() for counter in self.outcomes.values())

    @property
    def succeeded(self) -> float:
        """The share of actions that succeeded."""
        return sum(counter["NONE"] for counter in self.outcomes.values()) / max(1, self.actions)

    @property
    def passed(self) -> bool:
        """Whether there are neither violations nor leftovers."""
        return not self.findings and not self.leftovers

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
