"""In which order transfers and stages come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal_mlip.program.errors import ProgramError
from nnhal_mlip.program.program import DdrRange, MlipProgram, TaskKind, TileTask
from nnhal_mlip.simulator.order import steps_of
from tests.support.mlip_by_hand import HandMade


def two_stages() -> MlipProgram:
    """The second load waits for nothing, the second stage for it."""
    made = HandMade(np.float16)
    view, result = made.input((1, 1, 1, 4)), made.tensor((1, 1, 1, 4))
    made.stage(TileTask(0, TaskKind.COPY, (view,), result))
    made.load(DdrRange.INPUTS, 0, 8, made.room(8))
    made.transfers[1] = replace(made.transfers[1], after_stage=0)
    made.stage(TileTask(0, TaskKind.COPY, (view,), result))
    made.store(result)
    return made.program()


def order(program: MlipProgram, late: bool) -> list[str]:
    return [f"{'stage' if step.stage else 'transfer'} {step.number}" for step in steps_of(program, late)]


def test_transfers_come_as_early_as_they_can() -> None:
    assert order(two_stages(), False) == ["transfer 0", "transfer 1", "stage 0", "stage 1", "transfer 2"]


def test_transfers_come_as_late_as_they_can() -> None:
    assert order(two_stages(), True) == ["transfer 0", "stage 0", "transfer 1", "stage 1", "transfer 2"]


def test_transfers_at_the_start_are_in_no_run() -> None:
    program = two_stages()
    pinned = replace(program, transfers=(replace(program.transfers[0], at_start=True), *program.transfers[1:]))
    assert order(pinned, False) == ["transfer 1", "stage 0", "stage 1", "transfer 2"]


def test_queues_that_wait_for_each_other_are_an_error() -> None:
    program = two_stages()
    waiting = replace(program, stages=(program.stages[0], replace(program.stages[1], after_transfers=3)))
    with pytest.raises(ProgramError, match="transfer 2 after 2 stages and stage 1 after 3 transfers"):
        order(waiting, False)
