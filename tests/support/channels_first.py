"""Random models of images with their channels first, and how to compare two forms of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.operand_types import F32, I32, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal.validation import validate_model
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from tests.support.models import Recipe
from tests.support.rounding import tolerance_of

SCALE, ZERO_POINT = 0.125, 3
WEIGHT_SCALE = 0.015625


class ImageRecipe(Recipe):
    """A builder of models of images that are NCHW, float32 or 8 bits. Methods return the operand of the result."""

    def __init__(self, code: OperandType = F32, seed: int = 0) -> None:
        super().__init__()
        self.code = code
        self.quantised = code != F32
        self._random = np.random.default_rng(seed)
        self._scale, self._zero = (SCALE, ZERO_POINT) if self.quantised else (0.0, 0)

    def images(self, *dimensions: int) -> int:
        return self.input(self.code, dimensions, self._scale, self._zero)

    def like(self, *dimensions: int, code: OperandType | None = None) -> Operand:
        """Return an operand for a result; its dimensions may be left open."""
        if code is not None:
            return Operand(code, dimensions)
        return Operand(self.code, dimensions, self._scale, self._zero)

    def tensor(self, *dimensions: int) -> int:
        if self.quantised:
            return self.constant(self.code, self._random.integers(-100, 100, dimensions), self._scale, self._zero)
        return self.constant(self.code, self._random.uniform(-1, 1, dimensions))

    def filters(self, *dimensions: int) -> list[int]:
        """Add a random filter, with its output channels first, and a bias for each."""
        return [self._filter(dimensions), self.bias(dimensions[0])]

    def depthwise_filters(self, *dimensions: int) -> list[int]:
        """Add a random filter, with its output channels last, and a bias for each."""
        return [self._filter(dimensions), self.bias(dimensions[-1])]

    def bias(self, channels: int) -> int:
        if self.quantised:
            return self.constant(I32, self._random.integers(-50, 50, channels), SCALE * WEIGHT_SCALE)
        return self.constant(self.code, self._random.uniform(-1, 1, channels))

    def vector(self, *values: int) -> int:
        """Add a constant TENSOR_INT32."""
        return self.constant(I32, values)

    def matrix(self, values: Sequence[Sequence[int]]) -> int:
        """Add a constant TENSOR_INT32 of rank 2."""
        return self.constant(I32, values)

    def flag(self, value: bool) -> int:
        return self.constant(OperandType.BOOL, value)

    def real(self, value: float) -> int:
        return self.constant(OperandType.FLOAT32, value)

    def apply(self, code: OperationType, *inputs: Any, result: Operand | None = None) -> int:
        """Add an operation with one result. Inputs are operands, or in a list INT32 scalars."""
        operands = [each for part in inputs for each in (self.integers(*part) if isinstance(part, list) else [part])]
        return self.operation(code, operands, result or self.like())

    def convolution(self, images: int, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> int:
        """Add a convolution with SAME padding and RELU."""
        filters = self.filters(outputs, kernel, kernel, inputs)
        return self.apply(OperationType.CONV_2D, images, *filters, [1, stride, stride, 1], self.flag(True))

    def _filter(self, dimensions: Dimensions) -> int:
        if self.quantised:
            return self.constant(Q8AS, self._random.integers(-20, 21, dimensions), WEIGHT_SCALE, 0)
        return self.constant(self.code, self._random.uniform(-0.5, 0.5, dimensions))


def random_inputs(model: ResolvedModel, seed: int = 7) -> list[Array]:
    random = np.random.default_rng(seed)
    made = []
    for index in model.model.main.input_indexes:
        operand = model.model.main.operands[index]
        element = ELEMENT_TYPES[operand.type]
        values = random.uniform(-1, 1, operand.dimensions) * (1 if element.kind == "f" else 100)
        made.append(values.astype(element))
    return made


def assert_equal_in_value(one: ResolvedModel, other: ResolvedModel, *inputs: Array) -> None:
    """Check that cpu_ref computes the same with two valid models: integers exactly, floats but for rounding."""
    validate_model(other.model)
    given = list(inputs) or random_inputs(one)
    expected, got = (Interpreter(model).run(0, given, Control()) for model in (one, other))
    assert len(expected) == len(got)
    for wanted, found in zip(expected, got, strict=True):
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        absolute = 1e-5 + tolerance_of(one.model, wanted) if wanted.dtype.kind == "f" else 0
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=absolute)


def count(model: ResolvedModel, *codes: OperationType) -> int:
    """Return how many operations of given types a model has, by default TRANSPOSE."""
    wanted = codes or (OperationType.TRANSPOSE,)
    return sum(operation.type in wanted for operation in model.model.main.operations)
