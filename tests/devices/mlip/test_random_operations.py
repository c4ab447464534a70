"""Whatever mlip says that it supports compiles, alone and with others, and computes what cpu_ref does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F32, I32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_devices.mlip.driver import Mlip
from tests.support.mlip_hal import SCALE, MlipRecipe, is_taken, random_inputs
from tests.support.models import run_on
from tests.support.npu import SAME, VALID

_SCALES = (SCALE, 0.03, 0.07)


class RandomOperation:
    """A model of one operation, drawn by a seed."""

    def __init__(self, code: OperandType, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._recipe = MlipRecipe(code, seed)
        kinds = (self._convolved, self._pooled, self._connected, self._added, self._joined, self._moved, self._clamped)
        self.model = kinds[seed % len(kinds)]()

    def _draw(self, low: int, high: int) -> int:
        return int(self._random.integers(low, high + 1))

    def _dimensions(self, least: int = 1, most: int = 4) -> Dimensions:
        rank = self._draw(least, most)
        return tuple(self._draw(1, 9) for _ in range(rank))

    def _image(self) -> Dimensions:
        return self._draw(1, 9), self._draw(1, 20), self._draw(1, 20), self._draw(1, 40)

    def _one(
        self, kind: OperationType, inputs: Sequence[int], scale: float = SCALE, numbers: Sequence[int] = ()
    ) -> ResolvedModel:
        recipe = self._recipe
        return recipe.finish(recipe.operation(kind, [*inputs, *recipe.integers(*numbers)], recipe.like(scale)))

    def _convolved(self) -> ResolvedModel:
        recipe, (batch, height, width, depth) = self._recipe, self._image()
        depthwise = self._draw(0, 1)
        kernel = self._draw(1, 5), self._draw(1, 5)
        multiplier = self._draw(1, 3)
        channels = depth * multiplier if depthwise else self._draw(1, 40)
        filters = (1, *kernel, channels) if depthwise else (channels, *kernel, depth)
        image = recipe.tensor((batch, height + 4, width + 4, depth))
        numbers = [self._draw(0, 3) for _ in range(4)] + [self._draw(1, 3), self._draw(1, 3)]
        numbers += [multiplier] * depthwise + [self._draw(0, 3)]
        kind = OperationType.DEPTHWISE_CONV_2D if depthwise else OperationType.CONV_2D
        return self._one(kind, [image, recipe.weights(filters), recipe.bias(channels)], 0.1, numbers)

    def _pooled(self) -> ResolvedModel:
        batch, height, width, depth = self._image()
        size = self._draw(1, height), self._draw(1, width)
        kind = (OperationType.MAX_POOL_2D, OperationType.AVERAGE_POOL_2D)[self._draw(0, 1)]
        scheme = (SAME, VALID)[self._draw(0, 1)]
        numbers = [scheme, self._draw(1, 4), self._draw(1, 4), size[1], size[0], self._draw(0, 3)]
        return self._one(kind, [self._recipe.tensor((batch, height, width, depth))], numbers=numbers)

    def _connected(self) -> ResolvedModel:
        recipe, given = self._recipe, self._dimensions(2)
        units, size = self._draw(1, 40), int(np.prod(given[1:]))
        inputs = [recipe.tensor(given), recipe.weights((units, size)), recipe.bias(units)]
        return self._one(OperationType.FULLY_CONNECTED, inputs, 0.1, [self._draw(0, 3)])

    def _added(self) -> ResolvedModel:
        recipe, full = self._recipe, self._dimensions()
        thinned = tuple(length if self._draw(0, 2) else 1 for length in full)[self._draw(0, len(full) - 1) :]
        pair = [recipe.tensor(full, _SCALES[self._draw(0, 2)])]
        pair.append(recipe.values(thinned) if self._draw(0, 1) else recipe.tensor(thinned, _SCALES[self._draw(0, 2)]))
        order = pair if self._draw(0, 1) else pair[::-1]
        return self._one(OperationType.ADD, order, 0.1, [self._draw(0, 3)])

    def _joined(self) -> ResolvedModel:
        recipe, first = self._recipe, self._dimensions()
        axis = self._draw(0, len(first) - 1)
        fields = [(*first[:axis], self._draw(1, 5), *first[axis + 1 :]) for _ in range(self._draw(1, 4))]
        tensors = [recipe.tensor(field, _SCALES[self._draw(0, 2)]) for field in fields]
        return self._one(OperationType.CONCATENATION, tensors, 0.06, [axis])

    def _moved(self) -> ResolvedModel:
        recipe, given = self._recipe, self._dimensions()
        tensor = recipe.tensor(given)
        match self._draw(0, 3):
            case 0:
                order = recipe.constant(I32, self._random.permutation(len(given)))
                return self._one(OperationType.TRANSPOSE, [tensor, order])
            case 1:
                widths = recipe.constant(I32, self._random.integers(0, 3, (len(given), 2)))
                return self._one(OperationType.PAD, [tensor, widths])
            case 2:
                shape = list(given)
                self._random.shuffle(shape)
                return self._one(OperationType.RESHAPE, [tensor, recipe.constant(I32, shape)])
        return self._one(OperationType.EXPAND_DIMS, [tensor], numbers=[self._draw(0, len(given))])

    def _clamped(self) -> ResolvedModel:
        kinds = (OperationType.RELU, OperationType.RELU1, OperationType.RELU6)
        return self._one(kinds[self._draw(0, 2)], [self._recipe.tensor(self._dimensions())])


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
