"""Whatever mlip says that it supports compiles, alone and with others, and computes what cpu_ref does."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, Q8A, Q8AS
from nnhal.types import OperandType
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_devices.mlip.driver import Mlip
from tests.support.mlip_hal import is_taken, random_inputs
from tests.support.mlip_random import RandomOperation
from tests.support.models import run_on

DRIVERS = [Mlip(DriverOptions(extra={"checked": "true", **more})) for more in ({}, {"tiles": "2", "wb_pin_ocm": "1"})]
TOLERANCES = {F32: 0.02, Q8A: 1.0, Q8AS: 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("code", TOLERANCES)
def test_random_operations(code: OperandType) -> None:
    taken = 0
    for seed in range(70):
        try:
            model = RandomOperation(code, seed).model
        except HalError:  # it is not valid: its window is too large, say
            continue
        if not is_taken(model):
            continue
        taken += 1
        values = random_inputs(model)
        (got,) = run_on(DRIVERS[seed // 7 % 2], model, *values)
        (expected,) = run_on(CpuRef(), model, *values)
        exact = expected.astype(np.float64)
        relative = 0.01 if code == F32 else 0
        np.testing.assert_allclose(got.astype(np.float64), exact, relative, TOLERANCES[code], err_msg=f"seed {seed}")
    assert taken > 50
