from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal.memory import create_ashmem, map_file, open_pool, read_pools
from nnhal.resolved import ResolvedModel, describe_operation, inline_constants, propagate_dimensions
from nnhal.types import ExtensionNameAndPrefix, Model, Operand, OperandType, Operation, OperationType, Subgraph
from tests.support.additions import ELEMENTS, TENSOR_BYTES, addition_model, addition_of_constant
from tests.support.models import Recipe
from tests.support.mutations import with_main, with_operand
from tests.support.refusals import INVALID, refusal

F32 = OperandType.TENSOR_FLOAT32


def test_constants_have_the_type_and_dimensions_of_their_operands_and_are_read_only() -> None:
    recipe = Recipe()
    table = recipe.constant(F32, [[1.5, 2.5], [3.5, 4.5]])
    (activation,) = recipe.integers(3)
    flag = recipe.constant(OperandType.TENSOR_QUANT8_ASYMM, [7], scale=0.5)
    total = recipe.operation(OperationType.ADD, [table, table, activation], Operand(F32, (2, 2)))
    (constants,) = recipe.build(total).constants
    assert constants.keys() == {table, activation, flag}
    np.testing.assert_array_equal(constants[table], np.array([[1.5, 2.5], [3.5, 4.5]], np.float32), strict=True)
    np.testing.assert_array_equal(constants[activation], np.array(3, np.int32), strict=True)
    np.testing.assert_array_equal(constants[flag], np.array([7], np.uint8), strict=True)
    assert not any(array.flags.writeable for array in constants.values())


@pytest.mark.parametrize("start", [0, 1, 2, 3, 64])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_a_constant_in_a_pool_is_used_in_place_if_it_is_aligned_and_copied_otherwise(start: int, offset: int) -> None:
    """``start`` is where the pool begins in its file, ``offset`` where the constant begins in the pool."""
    values = np.arange(ELEMENTS, dtype=np.float32)
    memory = map_file(create_ashmem(start + offset + TENSOR_BYTES).descriptor, offset + TENSOR_BYTES, start)
    open_pool(memory, writable=True).write(offset, values.view(np.uint8))
    model = addition_of_constant(memory, offset)
    pools = read_pools(model.pools)
    array = inline_constants(model, pools)[0][1]
    np.testing.assert_array_equal(array, values, strict=True)
    assert array.flags.aligned
    assert not array.flags.writeable
    assert np.shares_memory(array, pools[0]) == ((start + offset) % 4 == 0)


def test_dimensions_follow_from_inputs_as_far_as_they_are_known() -> None:
    model = addition_model(operations=2)
    for index in (3, 4):
        model = with_operand(model, index, dimensions=())
    assert propagate_dimensions(ResolvedModel(model, inline_constants(model)))[3:] == ((ELEMENTS,), (ELEMENTS,))
    model = with_operand(with_operand(model, 0, dimensions=()), 1, dimensions=(0,))
    assert propagate_dimensions(ResolvedModel(model, inline_constants(model)))[3:] == ((), ())


def test_dimensions_that_contradict_one_another_are_refused_with_the_operation() -> None:
    model = with_operand(addition_model(), 3, dimensions=(ELEMENTS + 1,))
    resolved = ResolvedModel(model, inline_constants(model))
    words = r"operation 0 \(ADD\): output 0 has dimensions \[16\], the model says \[17\]"
    refusal(lambda: propagate_dimensions(resolved), INVALID, words)


@pytest.mark.parametrize(
    ("code", "subgraph", "name"),
    [
        (OperationType.SOFTMAX, 0, "operation 1 (SOFTMAX)"),
        (0x4F58_0000, 0, "operation 1 (type 0 of nnhal.onnx)"),
        (0x0007_0003, 0, "operation 1 (type 3 of com.example.ops)"),
        (0x7AAABBBB, 0, "operation 1 (type 0x7aaabbbb of an extension)"),
        (-1, 0, "operation 1 (type -1)"),
        (OperationType.ADD, 2, "operation 1 (ADD) of referenced subgraph 1"),
    ],
)
def test_an_operation_is_named_by_number_type_and_subgraph(code: int, subgraph: int, name: str) -> None:
    empty = Subgraph((), (), (), ())
    graphs = [empty, empty, empty]
    graphs[subgraph] = Subgraph((), (Operation(OperationType.ABS, (), ()), Operation(code, (), ())), (), ())
    extensions = (ExtensionNameAndPrefix("nnhal.onnx", 0x4F58), ExtensionNameAndPrefix("com.example.ops", 7))
    model = Model(graphs[0], tuple(graphs[1:]), extension_name_to_prefix=extensions)
    assert describe_operation(model, 1, subgraph) == name
    assert describe_operation(model, 1, subgraph, origin=9) == name.replace("operation 1", "operation 9")


def test_an_operation_of_an_extension_says_nothing_about_dimensions() -> None:
    model = addition_model()
    extension = Operation(0x0007_0001, (0, 1), (3,))
    model = with_main(with_operand(model, 3, dimensions=()), operations=(extension,))
    assert propagate_dimensions(ResolvedModel(model, inline_constants(model)))[3] == ()


def test_a_model_that_is_made_of_another_one_has_dimensions_of_its_own() -> None:
    model = addition_model()
    first = ResolvedModel(model, inline_constants(model))
    assert propagate_dimensions(first)[3] == (ELEMENTS,)
    second = replace(first, model=with_operand(model, 3, dimensions=(ELEMENTS + 1,)))
    refusal(lambda: propagate_dimensions(second), INVALID, "the model says")
