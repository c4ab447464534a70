"""Simplify a case as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

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
T = TypeVar("T")
P = TypeVar("P")


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


@dataclass(slots=True)
class Search(Generic[T]):
    """A search for simpler forms of something that still fail, which counts its tries."""

    fails: Callable[[T], bool]
    """Says whether a form fails."""
    most_tries: int = MOST_TRIES
    tries: int = 0
    """How many forms were tried."""

    @property
    def is_over(self) -> bool:
        """Whether no more forms are tried."""
        return self.tries >= self.most_tries

    def try_form(self, form: T) -> bool:
        """Return whether a form fails; False if the search is over."""
        if self.is_over:
            return False
        self.tries += 1
        return self.fails(form)

    def least(self, form: T, passes: Sequence[Callable[[T], T]]) -> T:
        """Return the form that none of the passes makes simpler. A pass returns its argument if it cannot."""
        before = None
        while form is not before and not self.is_over:
            before = form
            for simpler in passes:
                form = simpler(form)
        return form

    def first_failing(self, form: T, forms: Callable[[T], Iterator[T]]) -> T:
        """Take the first simpler form that fails, and again of that one, until none does."""
        before = None
        while form is not before:
            before = form
            for simpler in forms(form):
                if self.is_over:
                    return form
                if self.try_form(simpler):
                    form = simpler
                    break
        return form

    def fewest(self, form: T, parts: Sequence[P], form_of: Callable[[Sequence[P]], T]) -> T:
        """Leave out parts as long as what is left fails: halves, then quarters, down to single ones."""
        size = len(parts) // 2
        while size and not self.is_over:
            start = 0
            while start < len(parts):
                left = [*parts[:start], *parts[start + size :]]
                if left and self.try_form(simpler := form_of(left)):
                    form, parts = simpler, left
                else:
                    start += size
            size //= 2
        return form


def shrink(case: Case, judge: Judge, most_tries: int = MOST_TRIES) -> Shrunk | None:
    """Return the least form of a case that fails; None if the case itself does not.

    Raises HalError if the case is invalid.
    """
    search: Search[Case] = Search(judge.fails, most_tries)
    start = case.settled()
    if not search.try_form(start):
        return None
    kinds = (
        without_control_flow,
        lambda each: with_fewer_operations(each, judge.inner_values),
        with_shorter_tensors,
        with_plainer_values,
    )
    found = search.least(start, [partial(_simplified, search, kind) for kind in kinds])
    return Shrunk(found, search.tries, not search.is_over)


def _simplified(search: Search[Case], forms: Callable[[Case], Iterator[Case]], case: Case) -> Case:
    return search.first_failing(case, lambda each: _settled(forms(each)))


def _settled(forms: Iterator[Case]) -> Iterator[Case]:
    """The forms that are valid, with the dimensions that follow."""
    for form in forms:
        try:
            settled = form.settled()
        except HalError:
            continue
        yield settled
