from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from nnhal.memory import read_pools
from nnhal.operations.operand_types import B8, BOOL, F32, FLOAT32, I32
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal.validation import validate_model
from nnhal_service.native.omitted_arguments import without_trailing_defaults
from tests.support.models import Recipe
from tests.support.sample_models import SAMPLES
from tests.support.subgraphs import Program

IMAGE = (1, 4, 4, 4)
Arguments = Callable[[Recipe], list[int]]


def integers(*values: int) -> Arguments:
    return lambda recipe: recipe.integers(*values)


def filtered(size: Sequence[int], channels: int, *values: int) -> Arguments:
    return lambda recipe: [
        recipe.constant(F32, np.ones(size)),
        recipe.constant(F32, np.zeros(channels)),
        *recipe.integers(*values),
    ]


def tensors(*values: Sequence[object]) -> Arguments:
    return lambda recipe: [recipe.constant(I32, value) for value in values]


def reals(*values: float) -> Arguments:
    return lambda recipe: [recipe.constant(FLOAT32, value) for value in values]


def radius(recipe: Recipe) -> list[int]:
    return [*recipe.integers(1), *reals(1.0, 1.0, 0.5)(recipe)]


def size_and_layout(recipe: Recipe) -> list[int]:
    return [*recipe.integers(8, 8), recipe.constant(BOOL, 0)]


LAYOUT = (False,)
DILATED = (False, 1, 1)
CASES: dict[str, tuple[OperationType, Arguments, Sequence[bool | int], Sequence[int]]] = {
    # the arguments that must be there; the defaults behind them; how many of these may be there
    "average pool": (OperationType.AVERAGE_POOL_2D, integers(2, 1, 1, 2, 2, 0), LAYOUT, (0, 1)),
    "average pool, explicit": (OperationType.AVERAGE_POOL_2D, integers(0, 0, 0, 0, 1, 1, 2, 2, 0), LAYOUT, (0, 1)),
    "L2 pool": (OperationType.L2_POOL_2D, integers(2, 1, 1, 2, 2, 0), LAYOUT, (0, 1)),
    "max pool": (OperationType.MAX_POOL_2D, integers(2, 1, 1, 2, 2, 0), LAYOUT, (0, 1)),
    "convolution": (OperationType.CONV_2D, filtered((3, 2, 2, 4), 3, 2, 1, 1, 0), DILATED, (0, 1, 3)),
    "convolution, explicit": (
        OperationType.CONV_2D,
        filtered((3, 2, 2, 4), 3, 0, 0, 0, 0, 1, 1, 0),
        DILATED,
        (0, 1, 3),
    ),
    "depthwise": (OperationType.DEPTHWISE_CONV_2D, filtered((1, 2, 2, 4), 4, 2, 1, 1, 1, 0), DILATED, (0, 1, 3)),
    "depthwise, explicit": (
        OperationType.DEPTHWISE_CONV_2D,
        filtered((1, 2, 2, 4), 4, 0, 0, 0, 0, 1, 1, 1, 0),
        DILATED,
        (0, 1, 3),
    ),
    "batch to space": (OperationType.BATCH_TO_SPACE_ND, tensors([1, 1]), LAYOUT, (0, 1)),
    "space to batch": (OperationType.SPACE_TO_BATCH_ND, tensors([1, 1], [[0, 0], [0, 0]]), LAYOUT, (0, 1)),
    "depth to space": (OperationType.DEPTH_TO_SPACE, integers(2), LAYOUT, (0, 1)),
    "space to depth": (OperationType.SPACE_TO_DEPTH, integers(2), LAYOUT, (0, 1)),
    "L2 normalisation": (OperationType.L2_NORMALIZATION, integers(), (-1,), (0, 1)),
    "local response": (OperationType.LOCAL_RESPONSE_NORMALIZATION, radius, (-1,), (0, 1)),
    "softmax": (OperationType.SOFTMAX, reals(1.0), (-1,), (0, 1)),
    "bilinear": (OperationType.RESIZE_BILINEAR, integers(8, 8), (False, False, False), (0, 1, 2, 3)),
    "nearest": (OperationType.RESIZE_NEAREST_NEIGHBOR, size_and_layout, (False, False), (0, 1, 2)),
}


def build(code: OperationType, arguments: Arguments, trailing: Sequence[bool | int]) -> tuple[Model, int]:
    """The model without its trailing defaults, and how many inputs the operation had to have."""
    recipe = Recipe()
    inputs = [recipe.input(F32, IMAGE), *arguments(recipe)]
    more = [recipe.constant(BOOL, v) if isinstance(v, bool) else recipe.integers(v)[0] for v in trailing]
    resolved = recipe.build(recipe.operation(code, [*inputs, *more], Operand(F32, (0, 0, 0, 0))))
    return without_trailing_defaults(resolved), len(inputs)


@pytest.mark.contract("IC-16")
@pytest.mark.parametrize("name", CASES)
def test_documented_defaults_at_the_end_are_taken_off(name: str) -> None:
    code, arguments, defaults, counts = CASES[name]
    for count in counts:
        model, required = build(code, arguments, defaults[:count])
        validate_model(model)
        assert len(model.main.operations[0].inputs) == required


@pytest.mark.contract("IC-16")
@pytest.mark.parametrize("name", CASES)
def test_what_is_no_default_stays_and_so_does_what_stands_before_it(name: str) -> None:
    code, arguments, defaults, counts = CASES[name]
    for last in range(len(defaults)):
        trailing = list(defaults[: last + 1])
        trailing[-1] = not trailing[-1] if isinstance(trailing[-1], bool) else 2 if code != OperationType.SOFTMAX else 0
        if len(trailing) in counts:
            model, required = build(code, arguments, trailing)
            assert len(model.main.operations[0].inputs) == required + len(trailing)


@pytest.mark.contract("IC-16")
def test_dilations_come_and_go_together() -> None:
    code, arguments, _, _ = CASES["convolution"]
    for dilation, left in (((1, 1), 0), ((2, 1), 3), ((1, 2), 3)):
        model, required = build(code, arguments, (False, *dilation))
        assert len(model.main.operations[0].inputs) == required + left


def test_an_argument_that_is_no_constant_stays() -> None:
    recipe = Recipe()
    values, axis = recipe.input(F32, (2, 3)), recipe.input(OperandType.INT32)
    inputs = [values, recipe.constant(FLOAT32, 1.0), axis]
    resolved = recipe.build(recipe.operation(OperationType.SOFTMAX, inputs, Operand(F32, (2, 3))))
    assert without_trailing_defaults(resolved) == resolved.model


def test_subgraphs_lose_theirs_too() -> None:
    program = Program()
    main, then, otherwise = (program.graph() for _ in range(3))
    for graph in (then, otherwise):
        inputs = [graph.input((2, 3), F32), graph.constant(1.0, FLOAT32), graph.constant(-1, OperandType.INT32)]
        graph.returns(graph.operation(OperationType.SOFTMAX, inputs, Operand(F32, (2, 3))))
    chosen = [main.input(code=B8), main.reference(then), main.reference(otherwise)]
    main.returns(main.operation(OperationType.IF, [*chosen, main.input((2, 3), F32)], Operand(F32, (2, 3))))
    model = without_trailing_defaults(program.resolved())
    assert [len(graph.operations[0].inputs) for graph in (model.main, *model.referenced)] == [4, 2, 2]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_model_stays_valid(name: str) -> None:
    model = SAMPLES[name]()
    resolved = ResolvedModel(model, inline_constants(model, read_pools(model.pools)))
    validate_model(without_trailing_defaults(resolved))
