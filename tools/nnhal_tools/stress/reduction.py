"""Reduce the script of a stress run to the least that still shows its violation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from nnhal_tools.stress.report import NO_CLIENT, StressReport
from nnhal_tools.stress.script import ClientScript, StressScript
from nnhal_tools.stress.supervisor import Watch

_MOST_TRIES = 500
Part = TypeVar("Part")


class ScriptRunner(Protocol):
    """Runs a script once, on a device that holds nothing of earlier runs."""

    def __call__(self, script: StressScript, over: Watch, /) -> StressReport:
        """Return the report. The run ends early when ``over`` says so of it.

        Raises NnhalError if there is no device.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReducedScript:
    """The least script that was found to show a violation."""

    script: StressScript
    """The script."""
    kind: str
    """The violation, without values."""
    scripts: int
    """How many scripts were tried, the first one and this one among them."""
    runs: int
    """How often scripts were run for that."""
    shown: int
    """In how many of ``of`` further runs this script showed the violation."""
    of: int
    """How often it was run to see that."""
    is_least: bool
    """Whether no simpler form of it showed the violation; else the search ended before."""

    def as_dict(self) -> dict[str, object]:
        """The outcome for JSON."""
        return asdict(self)


@dataclass(slots=True)
class _Judge:
    """Runs each script until the violation comes, at most ``tries`` times: clients interleave differently each time."""

    run: ScriptRunner
    kind: str
    tries: int
    found: Callable[[StressScript], None]
    runs: int = 0

    def fails(self, script: StressScript) -> bool:
        if any(self.shows(script) for _ in range(self.tries)):
            self.found(script)
            return True
        return False

    def shows(self, script: StressScript) -> bool:
        self.runs += 1
        return self.kind in self.run(script, lambda report: self.kind in report.kinds).kinds


@dataclass(slots=True)
class _Search:
    """A search for shorter scripts that still show the violation, which counts its tries."""

    fails: Callable[[StressScript], bool]
    tries: int = 0
    """Scripts that were tried."""

    @property
    def is_over(self) -> bool:
        """Return whether no more scripts are tried."""
        return self.tries >= _MOST_TRIES

    def try_script(self, script: StressScript) -> bool:
        """Return whether a script shows the violation; False if the search is over."""
        if self.is_over:
            return False
        self.tries += 1
        return self.fails(script)

    def fewest(
        self, script: StressScript, parts: Sequence[Part], script_of: Callable[[Sequence[Part]], StressScript]
    ) -> StressScript:
        """Leave out parts as long as what is left fails: halves, then quarters, down to single ones."""
        size = len(parts) // 2
        while size and not self.is_over:
            start = 0
            while start < len(parts):
                left = [*parts[:start], *parts[start + size :]]
                if left and self.try_script(shorter := script_of(left)):
                    script, parts = shorter, left
                else:
                    start += size
            size //= 2
        return script


def reduce_script(
    script: StressScript,
    shown: StressReport,
    run: ScriptRunner,
    tries: int,
    found: Callable[[StressScript], None] = lambda _: None,
) -> ReducedScript | None:
    """Leave out clients, threads and actions as long as the first violation of ``shown`` comes again.

    A script shows it if it comes in one of ``tries`` runs. ``found`` is told of each simpler script that does. Returns
    None if the whole script does not. Raises NnhalError if the device is gone for good.
    """
    judge = _Judge(run, shown.kinds[0], tries, found)
    search = _Search(judge.fails)
    least = _with(script, _places(script))
    if not search.try_script(least):
        return None
    culprit = shown.findings[0].client if shown.findings else NO_CLIENT
    alone = least.with_clients(client for client in least.clients if client.client == culprit)
    if 0 < len(alone.clients) < len(least.clients) and search.try_script(alone):
        least = alone
    before = None
    while least is not before and not search.is_over:
        before = least
        least = search.fewest(least, least.clients, least.with_clients)
        least = search.fewest(least, _threads(least), partial(_with_threads, least))
        least = search.fewest(least, _places(least), partial(_with, least))
    is_least, runs = not search.is_over, judge.runs
    times = sum(judge.shows(least) for _ in range(tries))
    return ReducedScript(least, judge.kind, search.tries, runs, times, tries, is_least)


_Place = tuple[int, int, int]
"""The places of a client in its script, of a thread in its client, and of an action in its thread."""


def _places(script: StressScript) -> list[_Place]:
    return [
        (client, thread, act)
        for client, of_client in enumerate(script.clients)
        for thread, acts in enumerate(of_client.threads)
        for act in range(len(acts))
    ]


def _threads(script: StressScript) -> list[tuple[int, int]]:
    return list(dict.fromkeys((client, thread) for client, thread, _ in _places(script)))


def _with_threads(script: StressScript, left: Iterable[tuple[int, int]]) -> StressScript:
    kept = set(left)
    return _with(script, (place for place in _places(script) if place[:2] in kept))


def _with(script: StressScript, left: Iterable[_Place]) -> StressScript:
    """The script with these actions only, without threads that have none. A client without a thread is a session."""
    kept = set(left)

    def of_client(number: int, client: ClientScript) -> ClientScript:
        threads = (
            tuple(act for place, act in enumerate(acts) if (number, thread, place) in kept)
            for thread, acts in enumerate(client.threads)
        )
        return replace(client, threads=tuple(filter(None, threads)))

    return script.with_clients(of_client(number, client) for number, client in enumerate(script.clients))
