"""Values in other files stay where they are: the model refers to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.memory import create_read_only
from nnhal.types import OperandLifeTime
from nnhal_frontends import DEFAULT_LIMITS, ImportLimits, import_model
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.weights_pool import WeightsPool
from tests.support.external_data import LOCATION, SIDE, START, contents, elsewhere, layers, matrices
from tests.support.onnx_models import onnx_model


def pool(content: bytes) -> WeightsPool:
    memory = create_read_only([(0, np.frombuffer(content, np.uint8))], len(content))
    return WeightsPool(memory.descriptor, memory.size, LOCATION)


def imported(
    model: onnx.ModelProto, weights: WeightsPool, location: str = LOCATION, limits: ImportLimits = DEFAULT_LIMITS
) -> ImportedModel:
    return import_model(model.SerializeToString(), weights={location: weights}, limits=limits)


def test_weights_in_the_order_of_an_operation_are_not_copied() -> None:
    given = pool(contents())
    model = imported(layers(), given).model
    own = model.pools.index(given.memory)
    first, second = matrices()
    places = [
        operand.location.offset
        for operand in model.main.operands
        if operand.lifetime == OperandLifeTime.CONSTANT_POOL and operand.location.pool_index == own
    ]
    assert START + first.nbytes in places
    constants = imported(layers(), given).resolved().constants[0].values()
    assert any(np.array_equal(values, second) for values in constants)
    assert any(np.array_equal(values, first.T) for values in constants)


def test_a_step_in_words_of_the_file_has_all_its_large_weights_in_place() -> None:
    given = pool(contents())
    found = imported(layers(), given)
    main = found.model.main
    assert found.source is not None
    step = found.source.model_of(found.model, main.input_indexes, main.output_indexes)
    assert step is not None
    assert step.pools[1:] == (given.memory,)
    starts = [operand.location.offset for operand in step.main.operands if operand.location.pool_index == 1]
    assert starts == [START, START + matrices()[0].nbytes]


def test_values_at_no_multiple_of_their_size_are_copied() -> None:
    values = matrices()[0]
    model = onnx_model([helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], {"x": [1, SIDE]}, ["y"])
    model.graph.initializer.append(elsewhere("w", values, 1))
    given = pool(b"\0" + values.tobytes())
    found = imported(model, given)
    assert given.memory not in found.model.pools
    assert any(np.array_equal(constant, values) for constant in found.resolved().constants[0].values())


def test_a_model_that_was_parsed_can_be_imported_again() -> None:
    parsed, given = layers(), pool(contents())
    for _ in range(2):
        constants = import_model(parsed, weights={LOCATION: given}).resolved().constants[0].values()
        assert any(np.array_equal(values, matrices()[1]) for values in constants)


def changed(**entries: str) -> onnx.ModelProto:
    """The model with other entries for the place of its first tensor."""
    model = layers()
    for entry in model.graph.initializer[0].external_data:
        entry.value = entries.get(entry.key, entry.value)
    return model


def twice() -> onnx.ModelProto:
    """A model with more values than the file has, since two tensors are in one place."""
    model = layers()
    model.graph.initializer[1].external_data[1].value = str(START)
    model.graph.initializer.append(elsewhere("third", matrices()[0], START))
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: changed(location="other"), "tensor 'first' lie in another file, 'other', expected one of .* 'weights"),
        (lambda: changed(offset=str(1 << 40)), f"from {1 << 40} to .* in 'weights.bin', which has {len(contents())}"),
        (lambda: changed(offset="-4096"), "tensor 'first' has its values from -4096"),
        (lambda: changed(offset="four"), "tensor 'first' does not say where in 'weights.bin' its values lie"),
        (lambda: changed(length="4096"), f"tensor 'first' has 4096 bytes in 'weights.bin', expected {SIDE * SIDE * 4}"),
        (twice, "the tensors up to 'third' take more bytes than the files of their values have"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(make: Callable[[], onnx.ModelProto], message: str) -> None:
    with pytest.raises(InvalidModel, match=message):
        imported(make(), pool(contents()))


def test_values_that_have_to_be_copied_are_limited() -> None:
    inner = onnx_model([helper.make_node("Identity", ["w"], ["r"])], {}, ["r"]).graph
    inner.initializer.append(elsewhere("w", matrices()[0], 0))
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    model = onnx_model([node], {"c": []}, ["y"], element_type=np.bool_)
    given = pool(contents())
    imported(model, given)
    with pytest.raises(InvalidModel, match="have 36864 bytes in other files, expected at most 4096"):
        imported(model, given, limits=ImportLimits(folded_bytes=4096))
