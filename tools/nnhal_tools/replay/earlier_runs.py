"""Which earlier runs of a model make one wrong that is right by itself: a state that the device keeps between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from nnhal.errors import NnhalError
from nnhal.recording import DeviceRecording
from nnhal.remote import RemoteDevice
from nnhal.types import Model
from nnhal.v1 import recording_pb2 as wire
from nnhal_tools.conformance.arguments import bytes_of
from nnhal_tools.hal_runner import Arrays, run_on
from nnhal_tools.replay.outcomes import difference_of
from nnhal_tools.shrink import Search

_MOST_RUNS = 256
"""Runs before the wrong one that are looked at: the last ones."""
_MOST_TRIES = 40
"""Each is a session, of a driver a process, with some runs."""


@dataclass(frozen=True, slots=True)
class ShortestRun:
    """The least runs of a model, in their order, after which the one that is right by itself is wrong."""

    runs: tuple[int, ...]
    """By their numbers among all of the model in the recording, from 1 on; without the wrong one."""
    wrong: int
    """The number of the wrong one."""
    tries: int
    is_least: bool
    """Whether fewer do not do; else the search ended before."""

    def __str__(self) -> str:
        *first, last = map(str, self.runs)
        told = f"runs {', '.join(first)} and {last}" if first else f"run {last}"
        ended = "" if self.is_least else ", the search ended there"
        return (
            f"no operation: by itself run {self.wrong} of the model is right. It is wrong after {told}: that is the "
            f"shortest run of executions that shows it ({self.tries} tries{ended})"
        )


class EarlierRuns:
    """Looks for them on a device that is opened anew for each try, since what it keeps is not known."""

    def __init__(
        self,
        model: Model,
        runs: Mapping[int, Arrays],
        recorded: wire.RecordedExecution,
        recording: DeviceRecording,
        opened: Callable[[], AbstractContextManager[RemoteDevice]],
    ) -> None:
        """``runs`` are the inputs of runs by their numbers, in their order; the last one is ``recorded``."""
        self._model, self._runs, self._recorded = model, runs, recorded
        self._recording, self._opened = recording, opened
        *self._before, self._wrong = runs

    @property
    def is_right_by_itself(self) -> bool:
        """Whether the last run is as recorded if no other is made before."""
        try:
            return not self._is_wrong_after(())
        except NnhalError:
            return False

    def shortest(self) -> ShortestRun | None:
        """Return the shortest run that shows it; None if all runs of the model before the wrong one do not."""
        before = self._before[-_MOST_RUNS:]
        search: Search[Sequence[int]] = Search(self._shows, _MOST_TRIES)
        for size in (*_doubled(len(before)), len(before)):
            last = before[-size:]
            if last and search.try_form(last):
                found = search.fewest(last, last, list)
                return ShortestRun(tuple(found), self._wrong, search.tries, not search.is_over)
        return None

    def _shows(self, runs: Sequence[int]) -> bool:
        try:
            return self._is_wrong_after(runs)
        except NnhalError:
            return False

    def _is_wrong_after(self, runs: Sequence[int]) -> bool:
        with self._opened() as device:
            *_, outputs = run_on(device, self._model, [self._runs[number] for number in (*runs, self._wrong)])
        operands = [self._model.main.operands[index] for index in self._model.main.output_indexes]
        found = zip(operands, self._recorded.outputs, outputs, strict=True)
        return any(
            difference_of(self._model, operand, self._recording.content(content), bytes_of(got))
            for operand, content, got in found
            if self._recording.has(content)
        )


def _doubled(most: int) -> Iterator[int]:
    size = 1
    while size < most:
        yield size
        size *= 2
