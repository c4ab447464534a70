"""One run at a time uses what is bound, which is released once, when none uses it any more."""

from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_service.runtime.context.occupancy import Occupancy
from nnhal_service.runtime.run.cancellation import CancelledRunError
from nnhal_service.unloaded import UnloadedError


class _Counted:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def test_a_second_run_is_refused_until_the_first_has_ended() -> None:
    occupancy = Occupancy(_Counted())
    occupancy.enter()
    with pytest.raises(HalError, match="one run at a time"):
        occupancy.enter()
    occupancy.leave()
    occupancy.enter()
    assert occupancy.is_taken


def test_what_a_run_uses_is_released_at_its_end_and_once() -> None:
    release, cancel = _Counted(), _Counted()
    occupancy = Occupancy(release)
    occupancy.enter()
    occupancy.close(0, cancel)
    assert (release.calls, cancel.calls) == (0, 1)
    occupancy.leave()
    occupancy.close(0, cancel)
    assert (release.calls, cancel.calls) == (1, 1)
    with pytest.raises(HalError, match="the binding has been released"):
        occupancy.enter()


def test_runs_of_an_unloaded_model_say_so_whatever_devices_say() -> None:
    occupancy = Occupancy(_Counted())
    gone = HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the device is gone")
    missed = HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, "too late")
    assert occupancy.explained(gone) is gone
    occupancy.enter()
    occupancy.unload()
    assert isinstance(occupancy.explained(gone), UnloadedError)
    assert isinstance(occupancy.explained(CancelledRunError()), UnloadedError)
    assert occupancy.explained(missed) is missed
    with pytest.raises(UnloadedError):
        occupancy.enter()


def test_a_run_is_in_flight_from_its_own_beginning_on() -> None:
    occupancy = Occupancy(_Counted())
    occupancy.enter()
    first = occupancy.entered_ns
    occupancy.leave()
    assert (occupancy.entered_ns, occupancy.taken_seconds) == (0, 0)
    occupancy.enter()
    assert occupancy.entered_ns > first
    assert occupancy.taken_seconds > 0
