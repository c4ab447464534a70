"""Performance figures in words."""

from __future__ import annotations

import pytest

from nnhal.types import SLOWEST, Capabilities, OperandPerformance, OperandType, PerformanceInfo
from nnhal_pages.operating.performance import performance_rows

_CPU = PerformanceInfo(1.0, 1.0)


def _capabilities(*types: OperandType) -> Capabilities:
    return Capabilities(_CPU, _CPU, tuple(OperandPerformance(each, _CPU) for each in types), _CPU, SLOWEST)


def test_every_figure_has_a_row_and_rows_of_a_group_are_together() -> None:
    rows = performance_rows(
        _capabilities(OperandType.INT32, OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM)
    )
    assert [(row.name, row.group) for row in rows] == [
        ("float32 computed as float16, scalars", "floating point"),
        ("float32 computed as float16, tensors", "floating point"),
        ("TENSOR_FLOAT32", "floating point"),
        ("TENSOR_QUANT8_ASYMM", "quantised"),
        ("INT32", "other types"),
        ("IF", "control flow"),
        ("WHILE", "control flow"),
    ]


@pytest.mark.parametrize(
    ("ratio", "time", "words"),
    [
        (0.125, "0.125", "8 times as fast"),
        (1.0, "1", "as fast as the CPU"),
        (2.5, "2.5", "2.5 times as slow"),
        (SLOWEST.exec_time, "largest", "never preferred"),
    ],
)
def test_less_is_better(ratio: float, time: str, words: str) -> None:
    capabilities = Capabilities(_CPU, _CPU, (), PerformanceInfo(ratio, 0.5), _CPU)
    row = next(row for row in performance_rows(capabilities) if row.name == "IF")
    assert (row.time, row.speed, row.power) == (time, words, "0.5")
