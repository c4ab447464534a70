from __future__ import annotations

import hashlib

import numpy as np

from nnhal.codec import model_from_wire
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import Operand, OperandLifeTime, OperandType, OperationType
from nnhal.validation import validate_model
from nnhal_devices.remote.packing import PackedForWire, pack_model
from tests.support.models import Recipe

LARGE = 1000


def resolved(*, value: float = 1.0) -> ResolvedModel:
    """A model that adds the same large constant twice, and a small one."""
    recipe, code = Recipe(), OperandType.TENSOR_FLOAT32
    total = recipe.input(code, (LARGE,))
    large = np.full(LARGE, value, np.float32)
    (none,) = recipe.integers(0)
    for constant in (large, large, np.ones(1, np.float32)):
        other = recipe.constant(code, constant)
        total = recipe.operation(OperationType.ADD, [total, other, none], Operand(code, (LARGE,)))
    return recipe.build(total)


def unpacked(packed: PackedForWire) -> ResolvedModel:
    """The model as the device reads it."""
    pool = np.zeros(packed.message.pool_bytes, np.uint8)
    for part in packed.message.constants:
        pool[part.offset : part.offset + part.length] = packed.constants[part.digest]
    model = model_from_wire(packed.message.model, lambda _: (_ for _ in ()).throw(AssertionError))
    return ResolvedModel(model, inline_constants(model, {0: pool}))


def test_a_packed_model_has_the_same_constants() -> None:
    model = resolved()
    found = unpacked(pack_model(model))
    assert model.constants[0].keys() == found.constants[0].keys()
    for index, value in model.constants[0].items():
        np.testing.assert_array_equal(found.constants[0][index], value)
    assert found.model.main.operations == model.model.main.operations


def test_equal_constants_are_packed_once_by_their_digest() -> None:
    packed = pack_model(resolved())
    content = np.ones(LARGE, np.float32).tobytes()
    assert [part.digest for part in packed.message.constants] == [hashlib.sha256(content).digest()]
    assert len(packed.message.model.operand_values) < 1024


def test_small_constants_are_in_the_message() -> None:
    packed = pack_model(resolved())
    lifetimes = [operand.lifetime for operand in unpacked(packed).model.main.operands]
    assert lifetimes.count(OperandLifeTime.CONSTANT_POOL) == 2
    assert lifetimes.count(OperandLifeTime.CONSTANT_COPY) == 2


def test_a_digest_tells_models_with_other_constants_apart() -> None:
    assert pack_model(resolved()).digest == pack_model(resolved()).digest
    assert pack_model(resolved()).digest != pack_model(resolved(value=2.0)).digest


def test_a_packed_model_is_valid_apart_from_its_pool() -> None:
    validate_model(pack_inline().model)


def pack_inline() -> ResolvedModel:
    """A model whose constants are all small, as the device reads it."""
    recipe, code = Recipe(), OperandType.TENSOR_FLOAT32
    total = recipe.input(code, (2,))
    (none,) = recipe.integers(0)
    other = recipe.constant(code, np.ones(2, np.float32))
    return unpacked(
        pack_model(recipe.build(recipe.operation(OperationType.ADD, [total, other, none], Operand(code, (2,)))))
    )
