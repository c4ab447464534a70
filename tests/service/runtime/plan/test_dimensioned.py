"""Plans for certain dimensions that could not be made."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import cast

import pytest

from nnhal.errors import DeadObjectError, HalError
from nnhal.types import ErrorStatus
from nnhal_frontends.errors import FrontendError
from nnhal_service.runtime.plan import dimensioned
from nnhal_service.runtime.plan.dimensioned import DimensionedPlans
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan

UNPLANNED = SimpleNamespace(
    planner=SimpleNamespace(is_complete=True),
    imported=SimpleNamespace(inputs=[], model=SimpleNamespace(main=SimpleNamespace(operands=[]))),
)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (OSError(errno.EMFILE, "no descriptor"), 3),
        (DeadObjectError("the device is gone"), 3),
        (HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, "no memory"), 3),
        (HalError(ErrorStatus.DEVICE_UNAVAILABLE, "it drains"), 3),
        (HalError(ErrorStatus.INVALID_ARGUMENT, "the kernel is larger than the image"), 1),
        (FrontendError("node conv: 3 channels, expected 4"), 1),
    ],
    ids=str,
)
def test_only_what_is_wrong_with_the_model_is_remembered(
    error: Exception, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dimensioned, "_RETRY_SECONDS", 0.0)
    made: list[object] = []

    def make(dimensions: object) -> PreparedPlan:
        made.append(dimensions)
        if len(made) < 3:
            raise error
        raise FrontendError("a fault of the model")

    plans = DimensionedPlans(cast(PreparedPlan, UNPLANNED), make, lambda _: None)
    assert plans.hold(()) is None
    assert len(made) == calls


def test_a_plan_that_failed_for_want_of_something_is_not_made_again_at_once() -> None:
    made: list[object] = []

    def make(dimensions: object) -> PreparedPlan:
        made.append(dimensions)
        raise OSError(errno.EMFILE, "no descriptor")

    plans = DimensionedPlans(cast(PreparedPlan, UNPLANNED), make, lambda _: None)
    assert plans.hold(()) is None
    assert len(made) == 1
