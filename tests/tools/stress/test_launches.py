"""Facts that must be true of a launch before and after it is settled."""

from __future__ import annotations

from random import Random
from typing import Any, NoReturn, cast

import numpy as np
import pytest

from nnhal.errors import general_failure
from nnhal.fence import Signal, create_fence
from nnhal.types import ErrorStatus, FencedExecutionInfo
from nnhal_tools.stress.buffers import PreparedSpecimen
from nnhal_tools.stress.faults import NO_INSTANT
from nnhal_tools.stress.launches import FenceGate, HeldLaunch
from nnhal_tools.stress.outcomes import OK, Violation
from nnhal_tools.stress.plan import RequestPlan
from nnhal_tools.stress.specimens import create_specimens

DONE = FencedExecutionInfo(ErrorStatus.NONE)
FAILED = FencedExecutionInfo(ErrorStatus.GENERAL_FAILURE)


def not_ended() -> NoReturn:
    general_failure("not ended")


def launched(gates: tuple[FenceGate, ...] = (), info: FencedExecutionInfo = DONE) -> tuple[HeldLaunch, Signal]:
    """A launch whose execution has written the right output, and the device's end of its fence."""
    plan = RequestPlan(PreparedSpecimen(create_specimens(Random(1))[0], cast(Any, None)), Random(1))
    slot = plan.slots[2]
    assert plan.sample.expected is not None
    plan.blocks[slot.block].write(slot.offset, plan.sample.expected.reshape(-1).view(np.uint8))
    signal, fence = create_fence()
    plan.begin()
    return HeldLaunch(plan, fence, lambda: info, lambda: None, gates, (), NO_INSTANT, NO_INSTANT, OK), signal


def test_a_fence_that_signals_and_says_so_passes() -> None:
    launch, signal = launched()
    signal.send()
    assert launch.inquire() == ErrorStatus.NONE
    assert launch.settle() == ErrorStatus.NONE


def test_an_end_that_the_fence_does_not_tell_is_found() -> None:
    launch, signal = launched()
    signal.fail()
    with pytest.raises(Violation, match="its fence disagrees with its result"):
        launch.settle()


def test_an_end_that_is_not_allowed_is_found() -> None:
    launch, signal = launched(info=FAILED)
    signal.fail()
    with pytest.raises(Violation, match="ended with GENERAL_FAILURE"):
        launch.settle()


def test_an_end_before_the_fences_that_it_waits_for_is_found() -> None:
    gate = FenceGate(*create_fence())
    launch, signal = launched((gate,))
    with pytest.raises(Violation, match="before its fences"):
        launch.inquire()
    signal.send()
    with pytest.raises(Violation, match="before the fences for which it waits"):
        launch.settle()


def test_a_failed_fence_must_fail_what_waits_for_it() -> None:
    gate = FenceGate(*create_fence())
    launch, signal = launched((gate,))
    gate.end(well=False)
    signal.send()
    with pytest.raises(Violation, match="ended with NONE"):
        launch.settle()
    launch, signal = launched((gate,), FAILED)
    signal.fail()
    assert launch.settle() == ErrorStatus.GENERAL_FAILURE


def test_no_answer_once_the_fence_has_signalled_is_found() -> None:
    launch, signal = launched()
    launch.info = not_ended
    assert launch.inquire() == ErrorStatus.GENERAL_FAILURE
    signal.send()
    with pytest.raises(Violation, match="SIGNALLED"):
        launch.inquire()
