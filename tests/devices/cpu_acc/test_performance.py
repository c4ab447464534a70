"""The cost model of cpu_acc beside that of the reference: what ``takes_files`` and ``is_reference`` say."""

from __future__ import annotations

import pytest

from nnhal.types import OperandType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.performance import ROOFLINE
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.cpu_ref.performance import ROOFLINE as REFERENCE
from nnhal_devices.roofline import OperationWork


@pytest.mark.parametrize("code", list(OperandType))
@pytest.mark.parametrize("work", [OperationWork(0, 0), OperationWork(1 << 30, 1), OperationWork(1, 1 << 30)])
def test_no_operation_is_modelled_to_be_faster_on_the_reference(code: OperandType, work: OperationWork) -> None:
    assert CpuAcc.backend.takes_files
    assert CpuRef.backend.is_reference
    assert ROOFLINE.duration_ns(work, code) < REFERENCE.duration_ns(work, code)
    assert CpuAcc.backend.transfer_costs.hop_ns <= CpuRef.backend.transfer_costs.hop_ns
