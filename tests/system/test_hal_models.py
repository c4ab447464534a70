"""Models of the HAL, loaded into the framework instead of files."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F32, INT32
from nnhal.types import ErrorStatus, Model, Operand, OperationType, Priority
from nnhal_client import Framework
from tests.support.models import Recipe, floor_model
from tests.support.sample_models import in_pool

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 4


def dense() -> Model:
    """Return a fully connected layer, followed by tanh."""
    recipe = Recipe()
    values = recipe.input(F32, (2, 4))
    weights, bias = recipe.constant(F32, np.eye(3, 4)), recipe.constant(F32, [1.0, 2.0, 3.0])
    inputs = [values, weights, bias, *recipe.integers(0)]
    sums = recipe.operation(OperationType.FULLY_CONNECTED, inputs, Operand(F32, (2, 3)))
    return recipe.build(recipe.operation(OperationType.TANH, [sums], Operand(F32, (2, 3)))).model


@pytest.mark.parametrize("pooled", [False, True], ids=["copied", "in a pool"])
def test_a_model_is_loaded_and_run(framework: Framework, pooled: bool) -> None:
    model = framework.load_model(in_pool(dense()) if pooled else dense(), priority=Priority.HIGH)
    assert [tensor.name for tensor in (*model.inputs, *model.outputs)] == ["input0", "output0"]
    assert [placement.nodes for placement in model.placements] == [("operation0",), ("operation1",)]
    result = model.run({"input0": X})["output0"]
    np.testing.assert_allclose(result, np.tanh(X[:, :3] + [1, 2, 3]), rtol=1e-6)
    model.unload()


def test_operations_are_pinned_by_index(framework: Framework) -> None:
    pins = {"name:operation0": "cpu_ref", "name:operation1": "cpu_acc"}
    model = framework.load_model(dense(), pins=pins)
    assert model.steps == ("cpu_ref", "cpu_acc")
    result = model.run({"input0": X})["output0"]
    np.testing.assert_allclose(result, np.tanh(X[:, :3] + [1, 2, 3]), rtol=1e-6)
    assert [operation.nodes for operation in model.explain().operations] == [("operation0",), ("operation1",)]


def test_models_with_scalars_and_tensors_of_unknown_rank_run(framework: Framework) -> None:
    recipe = Recipe()
    values = recipe.input(F32)
    power = recipe.operation(OperationType.MUL, [values, values, *recipe.integers(0)], Operand(F32))
    rank = recipe.operation(OperationType.RANK, [values], Operand(INT32))
    model = framework.load_model(recipe.build(power, rank).model)
    for shape in ((2, 2), (3,)):
        outputs = model.run({"input0": np.full(shape, 3, np.float32)})
        np.testing.assert_array_equal(outputs["output0"], np.full(shape, 9))
        assert outputs["output1"] == len(shape)


def test_an_invalid_model_is_refused_with_the_reason(framework: Framework) -> None:
    with pytest.raises(HalError, match="no device 'npu'") as caught:
        framework.load_model(floor_model(), devices=["npu"])
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
    with pytest.raises(HalError) as caught:
        framework.load_model(floor_model(), deadline_ns=1)
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_PERSISTENT
