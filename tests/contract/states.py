"""Joining rows and marks: which rows are shown, and which are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.contract.marked import Mark
from tests.contract.table import ContractError, Family, Row


class State(StrEnum):
    """The state of a row."""

    SHOWN = "shown"
    NOT_APPLICABLE = "not applicable"
    MISSING = "missing"


@dataclass(frozen=True)
class RowState:
    """A row, and the tests that show it."""

    row: Row
    tests: tuple[str, ...]

    @property
    def state(self) -> State:
        if self.row.not_applicable is not None:
            return State.NOT_APPLICABLE
        return State.SHOWN if self.tests else State.MISSING


def join(families: Iterable[Family], marks: Sequence[Mark]) -> list[RowState]:
    """Return the state of every row. Raises ContractError if a mark names a row that does not exist or cannot apply."""
    rows = {row.id: row for family in families for row in family.rows}
    # A test with many parameters would repeat the same mistake, so only the first is reported.
    first = {mark.row: mark.test for mark in reversed(marks)}
    if wrong := [line for id_, test in sorted(first.items()) if (line := _mistake(rows.get(id_), id_, test))]:
        raise ContractError("\n".join(wrong))
    tests: dict[str, list[str]] = {id_: [] for id_ in rows}
    for mark in marks:
        if mark.shows:
            tests[mark.row].append(mark.test)
    return [RowState(row, tuple(tests[id_])) for id_, row in rows.items()]


def _mistake(row: Row | None, id_: str, test: str) -> str | None:
    if row is None:
        return f"{test} names {id_}, which is no row of the contract"
    if row.not_applicable is not None:
        return f"{test} names {id_}, which does not apply: {row.not_applicable}"
    return None


def summary(states: Iterable[RowState]) -> str:
    count = Counter(state.state for state in states)
    return (
        f"{count.total()} rows: {count[State.SHOWN]} shown by a test, {count[State.NOT_APPLICABLE]} do not apply, "
        f"{count[State.MISSING]} shown by nothing"
    )
