from __future__ import annotations

from nnhal.operations.operand_types import F16, F32, Q8A, Q8AS
from nnhal.types import OperandPerformance
from nnhal_devices.mlip.performance import capabilities_of
from nnhal_mlip.timing.profile import read_profile

PROFILE = read_profile()


def performance(tiles: int) -> dict[int, float]:
    found: tuple[OperandPerformance, ...] = capabilities_of(PROFILE, tiles).operand_performance
    return {each.type: each.info.exec_time for each in found}


def test_8_bit_values_are_four_times_as_fast_as_float16() -> None:
    ratios = performance(8)
    assert ratios[Q8A] == ratios[Q8AS] < ratios[F16] < 1
    assert F32 not in ratios


def test_relaxed_float32_runs_as_float16_does() -> None:
    found = capabilities_of(PROFILE, 8)
    assert found.relaxed_float32_to_float16_tensor.exec_time == performance(8)[F16]


def test_fewer_tiles_are_slower_in_proportion() -> None:
    assert performance(2)[F16] == 4 * performance(8)[F16]
