"""Models of one 8-bit operation, and whether an NPU supports them: ethos_n, unless the test asks another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnhal.operations.filters import FILTER
from nnhal.operations.operand_types import I32, Q8A, Q8AS, Q8C
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import ChannelQuant, Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.ethos_n.support import supported_operations
from tests.support.agreement import QUANTIZATION
from tests.support.models import Recipe

SAME = 1
VALID = 2
TYPES = (Q8A, Q8AS)
Ask = Callable[[ResolvedModel], Sequence[Support]]
SCALES = (0.5, 0.25, 1.0)
"""The scales of a convolution's input, filter and output."""


def convolution(
    code: OperandType,
    filter_dimensions: Dimensions,
    parameters: Sequence[int | bool | Sequence[int]],
    image: Dimensions = (1, 16, 16, 2),
    operation: OperationType = OperationType.CONV_2D,
    scales: tuple[float, float, float] = SCALES,
    channel_scales: Sequence[float] = (),
    weight_everywhere: int | None = None,
) -> ResolvedModel:
    """Return a convolution of any kind, quantised per channel if ``channel_scales`` are given.

    Its weights are random unless one is given for all.
    """
    recipe = Recipe()
    given, weight, made = scales
    zero_point = QUANTIZATION[code][1]
    axis = 3 if operation == OperationType.DEPTHWISE_CONV_2D else 0
    values = np.random.default_rng(1).integers(-9, 10, filter_dimensions)
    if weight_everywhere is not None:
        values[...] = weight_everywhere
    if channel_scales:
        kernel = recipe.constant(Q8C, values, channels=ChannelQuant(tuple(channel_scales), axis))
    else:
        kernel = recipe.constant(code, values + zero_point, weight, zero_point)
    bias = np.arange(filter_dimensions[axis])
    inputs = [
        recipe.input(code, image, given, zero_point),
        kernel,
        recipe.constant(I32, bias, 0.0 if channel_scales else given * weight),
    ]
    for parameter in parameters:
        kind = OperandType.BOOL if isinstance(parameter, bool) else OperandType.INT32
        inputs.append(recipe.constant(kind if isinstance(parameter, int) else I32, parameter))
    return recipe.build(recipe.operation(operation, inputs, Operand(code, (), made, zero_point)))


def convolution_at_run_time(code: OperandType, index: int = FILTER) -> ResolvedModel:
    """Return a convolution that takes one of its constants as an input of the model."""
    recipe = Recipe()
    zero_point = QUANTIZATION[code][1]
    inputs = [recipe.input(code, (1, 8, 8, 2), 0.5, zero_point)]
    for position, (kind, dimensions, scale, zero) in enumerate(
        [(code, (4, 3, 3, 2), 0.25, zero_point), (I32, (4,), 0.125, 0)], FILTER
    ):
        fed = position == index
        inputs.append(
            recipe.input(kind, dimensions, scale, zero)
            if fed
            else recipe.constant(kind, np.zeros(dimensions), scale, zero)
        )
    inputs += recipe.integers(SAME, 1, 1, 0)
    return recipe.build(recipe.operation(OperationType.CONV_2D, inputs, Operand(code, (), 1.0, zero_point)))


def is_taken(model: ResolvedModel, ask: Ask = supported_operations) -> bool:
    return all(answer == SUPPORTED for answer in ask(model))


def refusal(model: ResolvedModel, ask: Ask = supported_operations) -> Unsupported:
    """Return why the only operation is unsupported, and check that the reason is complete."""
    (answer,) = ask(model)
    assert isinstance(answer, Unsupported), "the operation is supported"
    assert answer.got
    assert answer.allowed
    assert " " in answer.hint
    return answer


def assert_limit(
    inside: ResolvedModel, outside: ResolvedModel, code: str, got: str, allowed: str, ask: Ask = supported_operations
) -> None:
    """Check that ``inside`` is supported, and that ``outside`` is refused for the given reason."""
    assert is_taken(inside, ask), ask(inside)
    reason = refusal(outside, ask)
    assert (reason.code, reason.got, reason.allowed) == (code, got, allowed)
