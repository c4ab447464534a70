"""The report of a stress run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from nnhal_tools.stress.script import ClientScript, StressScript

CUT_OFF = "CUT OFF"
"""The outcome of an action during which its session's process ended."""
CLOSED = "CLOSED"
"""The outcome of an action during which its session was closed."""
NOT_OFFERED = "NOT OFFERED"
"""The outcome of an action about something that the device has not, and need not have."""
NO_CLIENT = -1
"""In place of the number of a client: the violation is the supervisor's own finding."""
_VALUES = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|'[^']*'|[-+]?[0-9]+(?:\.[0-9]+)?")
_MOST_OF_A_KIND = 200


@dataclass(frozen=True)
class StressFinding:
    """A violation, with what is needed to find it in the script of the run."""

    client: int
    """Number of the client; ``NO_CLIENT`` if the supervisor found it after the clients had ended."""
    seed: int
    """Seed of the client."""
    thread: int
    """Number of the thread."""
    step: int
    """Number of the action in the thread's script."""
    action: str
    """Name of the action."""
    arguments: str
    """What the action was about."""
    text: str
    """What was got and what was expected."""

    @property
    def kind(self) -> str:
        """Key that two runs share that show the same violation: its words, without any values."""
        return kind_of(self.text)

    def __str__(self) -> str:
        where = f"client {self.client}, thread {self.thread}, action {self.step}: "
        return f"{where if self.client != NO_CLIENT else ''}{self.action} [{self.arguments}]: {self.text}"


def kind_of(text: str) -> str:
    """The words of a violation or a leftover, without values."""
    before = ""
    while before != text:
        before, text = text, _VALUES.sub("", text)
    return " ".join(text.split())[:_MOST_OF_A_KIND]


@dataclass
class StressReport:
    """Actions and findings of a stress run."""

    device: str
    """Name of the device."""
    seed: int
    """Seed of the run; of one that replays a script, 0."""
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
    allocates: bool = True
    """Whether the device has buffers of its own: it need not offer Allocate."""
    workers: int = 0
    """How many executions it runs at a time; 0 if it does not say."""
    serial_because: str = ""
    """Why it runs one at a time though several were wanted; empty if it does not, or nobody wanted several."""
    begun: list[Sequence[int]] = field(default_factory=list)
    """How many actions of each thread each client has begun; clients are in the order in which they were started."""

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
        """True if no action went through to its end, so that nothing is known of the device."""
        return all(counter.keys() <= {CUT_OFF, CLOSED, NOT_OFFERED} for counter in self.outcomes.values())

    @property
    def passed(self) -> bool:
        """True if something was done, and there are neither violations nor leftovers."""
        return not (self.did_nothing or self.findings or self.leftovers)

    @property
    def kinds(self) -> list[str]:
        """The kinds of what was found, without repetitions, in the order of their discovery."""
        texts = [finding.text for finding in self.findings] + self.leftovers
        return list(dict.fromkeys(map(kind_of, texts)))

    def script(self, sessions: int, clients: Iterable[ClientScript]) -> StressScript:
        """Actions that were done, as a script of so many clients at a time. ``clients`` are those of the run, perhaps
        more.
        """
        started = zip(clients, self.begun, strict=False)
        return StressScript(sessions, tuple(client.cut(begun) for client, begun in started))

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
            "violations": [asdict(finding) for finding in self.findings],
            "leftovers": self.leftovers,
            "allocates": self.allocates,
            "workers": self.workers,
            "serial_because": self.serial_because,
            "resident_growth_bytes": self.resident_growth_bytes,
        }
