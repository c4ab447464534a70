"""Small valid models of many kinds: known and unknown dimensions, constants inline and in a pool, subgraphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nnhal.memory import create_ashmem, open_pool
from nnhal.operations.operand_types import BOOL, F16, F32, FLOAT32, I32, Q8A, Q8AS, Q8C
from nnhal.types import ChannelQuant, Model, Operand, OperandLifeTime, OperationType
from tests.support.models import Recipe
from tests.support.subgraphs import B8, Program


def in_pool(model: Model) -> Model:
    memory = create_ashmem(len(model.operand_values))
    open_pool(memory, writable=True).write(0, np.frombuffer(model.operand_values, np.uint8))
    operands = tuple(
        replace(o, lifetime=OperandLifeTime.CONSTANT_POOL) if o.lifetime == OperandLifeTime.CONSTANT_COPY else o
        for o in model.main.operands
    )
    return replace(model, main=replace(model.main, operands=operands), operand_values=b"", pools=(memory,))


def arithmetic() -> Model:
    """ADD of unknown axes, and MUL of its sum with itself: two outputs."""
    recipe = Recipe()
    first, second = recipe.input(F32, (0, 4)), recipe.input(F32, (4,))
    (none,) = recipe.integers(0)
    total = recipe.operation(OperationType.ADD, [first, second, none], Operand(F32, (0, 4)))
    square = recipe.operation(OperationType.MUL, [total, total, none], Operand(F32))
    return recipe.build(total, square).model


def convolution() -> Model:
    """CONV_2D, quantised by channel, with dilation; AVERAGE_POOL_2D; SOFTMAX along an axis."""
    recipe = Recipe()
    image = recipe.input(Q8A, (1, 4, 4, 2), 0.5, 128)
    weights = recipe.constant(Q8C, np.ones((3, 2, 2, 2)), channels=ChannelQuant((0.25, 0.5, 0.125), 0))
    bias = recipe.constant(I32, np.arange(3))
    layout = recipe.constant(BOOL, 0)
    maps = recipe.operation(
        OperationType.CONV_2D,
        [image, weights, bias, *recipe.integers(1, 1, 1, 0), layout, *recipe.integers(1, 1)],
        Operand(Q8A, (1, 4, 4, 3), 1.0),
    )
    pooled = recipe.operation(
        OperationType.AVERAGE_POOL_2D,
        [maps, *recipe.integers(2, 2, 2, 2, 2, 0), layout],
        Operand(Q8A, (1, 2, 2, 3), 1.0),
    )
    beta, (axis,) = recipe.constant(FLOAT32, 1), recipe.integers(-1)
    top = recipe.operation(OperationType.SOFTMAX, [pooled, beta, axis], Operand(Q8A, (1, 2, 2, 3), 1 / 256))
    return recipe.build(top).model


def depthwise() -> Model:
    """DEPTHWISE_CONV_2D with explicit paddings, and SPACE_TO_DEPTH; signed."""
    recipe = Recipe()
    image = recipe.input(Q8AS, (1, 4, 4, 2), 0.5, -3)
    weights = recipe.constant(Q8AS, np.ones((1, 2, 2, 4)), 0.25)
    bias = recipe.constant(I32, np.arange(4), 0.125)
    layout = recipe.constant(BOOL, 0)
    maps = recipe.operation(
        OperationType.DEPTHWISE_CONV_2D,
        [image, weights, bias, *recipe.integers(0, 1, 0, 1, 1, 1, 2, 1), layout],
        Operand(Q8AS, (1, 4, 4, 4), 1.0),
    )
    blocks = recipe.operation(
        OperationType.SPACE_TO_DEPTH, [maps, *recipe.integers(2), layout], Operand(Q8AS, (1, 2, 2, 16), 1.0)
    )
    return recipe.build(blocks).model


def joined() -> Model:
    """CONCATENATION, SPLIT of it, and PACK of the parts; all axes are unknown."""
    recipe = Recipe()
    first, second = recipe.input(F32, (2, 0)), recipe.input(F32, (2, 0))
    whole = recipe.operation(
        OperationType.CONCATENATION, [first, second, first, *recipe.integers(1)], Operand(F32, (2, 0))
    )
    halves = (Operand(F32, (0, 0)), Operand(F32, (1, 0)))
    half = recipe.operation(OperationType.SPLIT, [whole, *recipe.integers(0, 2)], *halves)
    (axis,) = recipe.integers(0)
    packed = recipe.operation(OperationType.PACK, [axis, half, half + 1, half], Operand(F32))
    return recipe.build(packed).model


def converted() -> Model:
    """RESHAPE, CAST, QUANTIZE, DEQUANTIZE."""
    recipe = Recipe()
    values = recipe.input(I32, (2, 6))
    reshaped = recipe.operation(OperationType.RESHAPE, [values, recipe.constant(I32, [3, -1])], Operand(I32, (3, 4)))
    real = recipe.operation(OperationType.CAST, [reshaped], Operand(F32, (3, 4)))
    steps = recipe.operation(OperationType.QUANTIZE, [real], Operand(Q8A, (3, 4), 0.5, 3))
    result = recipe.operation(OperationType.DEQUANTIZE, [steps], Operand(F16, (3, 4)))
    return recipe.build(real, result).model


def resized() -> Model:
    """RESIZE_BILINEAR with every option, and RESIZE_NEAREST_NEIGHBOR of that by factors; the image size is unknown."""
    recipe = Recipe()
    images = recipe.input(F32, (1, 0, 0, 3))
    no, yes = recipe.constant(BOOL, 0), recipe.constant(BOOL, 1)
    smooth = recipe.operation(
        OperationType.RESIZE_BILINEAR, [images, *recipe.integers(8, 6), no, yes, no], Operand(F32, (1, 6, 8, 3))
    )
    factors = [recipe.constant(FLOAT32, 0.5) for _ in range(2)]
    small = recipe.operation(
        OperationType.RESIZE_NEAREST_NEIGHBOR, [smooth, *factors, no, no, yes], Operand(F32, (1, 3, 4, 3))
    )
    return recipe.build(small).model


def recurrent() -> Model:
    """RNN and, without its bias, SVDF."""
    recipe = Recipe()
    values, state = recipe.input(F32, (2, 3)), recipe.input(F32, (2, 4))
    weights = [recipe.constant(F32, np.ones(shape)) for shape in ((4, 3), (4, 4), (4,))]
    hidden = recipe.operation(
        OperationType.RNN,
        [values, *weights, state, *recipe.integers(1)],
        Operand(F32, (2, 4)),
        Operand(F32, (2, 4)),
    )
    memory = recipe.input(F32, (2, 10))
    features, times = recipe.constant(F32, np.ones((5, 4))), recipe.constant(F32, np.ones((5, 2)))
    none = recipe.omitted(F32)
    filtered = recipe.operation(
        OperationType.SVDF,
        [hidden + 1, features, times, none, memory, *recipe.integers(1, 0)],
        Operand(F32, (2, 10)),
        Operand(F32, (2, 5)),
    )
    return recipe.build(hidden, filtered, filtered + 1).model


def branching() -> Model:
    """An IF over a WHILE that counts, and an addition."""
    program = Program()
    main = program.graph()
    counting, adding, below, increment = (program.graph() for _ in range(4))
    limit = counting.input()
    one = Operand(I32, (1,))
    loop = [counting.reference(below), counting.reference(increment), counting.constant([0]), limit]
    counting.returns(counting.operation(OperationType.WHILE, loop, one))
    value = adding.input()
    adding.returns(adding.add(value, adding.constant([10])))
    below.returns(below.less(below.input(), below.input()))
    count, _ = increment.input(), increment.input()
    increment.returns(increment.add(count, increment.constant([1])))
    chosen = [main.input(code=B8), main.reference(counting), main.reference(adding), main.input()]
    main.returns(main.operation(OperationType.IF, chosen, one))
    return program.resolved().model


SAMPLES: dict[str, Callable[[], Model]] = {
    "arithmetic": arithmetic,
    "convolution": convolution,
    "depthwise convolution, in a pool": lambda: in_pool(depthwise()),
    "joined and split": joined,
    "converted": converted,
    "resized": resized,
    "recurrent, in a pool": lambda: in_pool(recurrent()),
    "branches and loops": branching,
}
