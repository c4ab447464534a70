from __future__ import annotations

import re

from nnhal.operations.operand_types import F16
from nnhal.types import OperationType, OptimizationViews
from nnhal_devices.driver import DriverOptions
from nnhal_devices.mlip.driver import Mlip
from tests.support.mlip_hal import MlipRecipe

SMALL = (1, 64)
LONG = (1, 1 << 20)
"""A row that no tile can hold."""


class Rows(MlipRecipe):
    """Layers on rows."""

    def connected(self, row: int, size: int, units: int = 1) -> int:
        inputs = [row, self.weights((units, size)), self.bias(units), *self.integers(0)]
        return self.operation(OperationType.FULLY_CONNECTED, inputs, self.like())

    def clamped(self, row: int) -> int:
        return self.operation(OperationType.RELU, [row], self.like())


def optimized(recipe: Rows, *outputs: int) -> OptimizationViews:
    return Mlip(DriverOptions()).backend.optimize(recipe.finish(*outputs))


def test_a_network_that_fits_is_compiled_as_one() -> None:
    rows = Rows(F16)
    views = optimized(rows, rows.clamped(rows.connected(rows.connected(rows.tensor(SMALL), 64, 64), 64, 32)))
    (substitution,) = views.substitutions
    assert substitution.operations == (0, 1, 2)
    pattern = r"compiled: 3 operations, 2 kernels on [1248] tiles, [\d.e-]+ Mcycles \(modelled\)"
    assert re.fullmatch(pattern, substitution.replacement)
    assert not views.failed


def test_a_layer_that_does_not_fit_fails_with_the_bytes_that_it_wants() -> None:
    rows = Rows(F16)
    long, small = rows.tensor(LONG), rows.tensor(SMALL)
    views = optimized(rows, rows.clamped(rows.connected(small, 64)), rows.clamped(rows.connected(long, 1 << 20)))
    assert [each.operations for each in views.substitutions] == [(0, 1)]
    (failure,) = views.failed
    assert failure.operations == (2, 3)
    assert re.match(r"operation 2 \(FULLY_CONNECTED\): takes \d+ bytes .* expected at most 1048576", failure.reason)


def test_operations_after_one_that_failed_are_a_group_of_their_own() -> None:
    rows = Rows(F16)
    short = rows.connected(rows.tensor(LONG), 1 << 20)
    views = optimized(rows, rows.connected(rows.connected(short, 1, 8), 8, 4))
    assert [each.operations for each in views.failed] == [(0,)]
    assert [each.operations for each in views.substitutions] == [(1, 2)]
