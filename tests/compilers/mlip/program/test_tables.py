from __future__ import annotations

from math import erf, exp, nan, sqrt, tanh
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.program.tables import TableKind, TaskTable, looked_up

FUNCTIONS: dict[TableKind, Any] = {
    TableKind.NONE: lambda x: x,
    TableKind.SIGMOID: lambda x: 1 / (1 + exp(-x)),
    TableKind.TANH: tanh,
    TableKind.SILU: lambda x: x / (1 + exp(-x)),
    TableKind.HARD_SIGMOID: lambda x: min(max(0.3 * x + 0.4, 0), 1),
    TableKind.HARD_SWISH: lambda x: x * min(max(x / 6 + 0.5, 0), 1),
    TableKind.GELU: lambda x: x * (1 + erf(x / sqrt(2))) / 2,
    TableKind.GELU_TANH: lambda x: x * (1 + tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    TableKind.LEAKY_RELU: lambda x: x if x > 0 else 0.3 * x,
    TableKind.ERF: erf,
    TableKind.RSQRT: lambda x: 1 / sqrt(x + 0.4) if x > -0.4 else nan,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", TableKind)
def test_each_function_is_what_its_name_says(kind: TableKind, dtype: type) -> None:
    values: Array = np.linspace(-9, 9, 1001).astype(dtype)
    with np.errstate(invalid="ignore"):
        found = looked_up(TaskTable(kind, 0.3, 0.4), values)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, [FUNCTIONS[kind](float(x)) for x in values], rtol=1e-6, atol=2e-6)


def test_large_numbers_overflow_nowhere() -> None:
    values = np.array([-6e4, 6e4], np.float32)
    assert list(looked_up(TaskTable(TableKind.SILU), values)) == [0, values[1]]
    assert list(looked_up(TaskTable(TableKind.GELU), values)) == [0, values[1]]
