"""Simplify a case as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal_tools.shrink.case import Case
from nnhal_tools.shrink.simpler import (
    with_fewer_operations,
    with_plainer_values,
    with_shorter_tensors,
    without_control_flow,
)

MOST_TRIES = 500


class Judge(Protocol):
    """Says whether a case fails."""

    def fails(self, case: Case) -> bool:
        """Return whether it fails. A case that cannot be run does not. Raises DeadObjectError if a device is gone."""
        ...

    def inner_values(self, case: Case) -> Mapping[int, Array]:
        """Return what the operations of a case compute, by operand, as they should: all of it, or what is known."""
        ...


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The least that was found to fail."""

    case: Case
    tries: int
    is_least: bool
    """Whether no simpler form of it fails; else the search ended before."""


def shrink(case: Case, judge: Judge, most_tries: int = MOST_TRIES) -> Shrunk | None:
    """Return the least form of a case that fails; None if the case itself does not.

    Raises HalError if the case is invalid.
    """
    search = _Search(judge, most_tries)
    start = case.settled()
    if not search.fails(start):
        return None
    found, before = start, None
    while found is not before and not search.is_over:
        before = found
        for simpler in (
            without_control_flow,
            lambda each: with_fewer_operations(each, judge.inner_values),
            with_shorter_tensors,
            with_plainer_values,
        ):
            found = search.simplified(found, simpler)
    return Shrunk(found, search.tries, not search.is_over)


@dataclass(slots=True)
class _Search:
    judge: Judge
    most_tries: int
    tries: int = 0

    @property
    def is_over(self) -> bool:
        return self.tries >= self.most_tries

    def fails(self, case: Case) -> bool:
        self.tries += 1
        return self.judge.fails(case)

    def simplified(self, case: Case, forms: Callable[[Case], Iterator[Case]]) -> Case:
        """Take the first simpler form that fails, and again of that one, until none does."""
        while (simpler := self._first_failing(forms(case))) is not None:
            case = simpler
        return case

    def _first_failing(self, forms: Iterator[Case]) -> Case | None:
        for form in forms:
            if self.is_over:
                return None
            try:
                settled = form.settled()
            except HalError:
                continue
            if self.fails(settled):
                return settled
        return None
