from __future__ import annotations

import pytest

from nnhal_service.access import NumberTable, RequestMemoryBudget
from nnhal_service.serving import ServingError


def test_the_processes_of_a_table_add_up() -> None:
    here = NumberTable.create(rows=2, columns=3)
    there = NumberTable(here.memory, columns=3)
    ours, theirs = here.number(0, 0), there.number(0, 2)
    ours.add(5)
    theirs.add(7)
    ours.add(-1)
    assert (ours.total, theirs.total) == (11, 11)
    assert here.number(1, 0).total == 0


def test_what_a_process_that_is_gone_held_is_forgotten() -> None:
    table = NumberTable.create(rows=2, columns=2)
    for row in range(2):
        for column in range(2):
            table.number(row, column).add(3)
    table.clear(1)
    assert [table.number(row, 0).total for row in range(2)] == [3, 3]


def test_processes_share_a_budget() -> None:
    table = NumberTable.create(rows=1, columns=2)
    ours, theirs = (RequestMemoryBudget(100, table.number(0, column)) for column in range(2))
    with ours.charge(60):
        with pytest.raises(
            ServingError, match="holds 50 bytes or more while others hold 60; all together may hold 100"
        ):
            theirs.charge(50)
        with theirs.charge(40):
            assert ours.held == theirs.held == 100
    assert ours.held == 0
    theirs.charge(100)
