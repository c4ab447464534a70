from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from nnhal.operations.operand_types import F16, F32, I32, Q8A, Q8AS
from nnhal.support import Unsupported
from nnhal.types import Operand, OperandType, OperationType
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_frontends import import_model
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.importing.hal_operation import signed
from nnhal_mlip.importing.model_import import import_hal_model
from nnhal_mlip.importing.rules import IMPORT_RULES
from nnhal_mlip.support import supported_operations
from tests.support.agreement import single
from tests.support.mlip_hal import EACH_EXAMPLE, ZERO_POINTS, MlipRecipe, mlip_examples, random_inputs
from tests.support.models import Recipe, run_on
from tests.support.onnx_models import onnx_model

TOLERANCES = {F32: 1e-4, F16: 2e-2, Q8A: 1.01, Q8AS: 1.01}
"""Absolute; of 8-bit values in steps of the output's scale."""


@pytest.mark.parametrize(("code", "name"), EACH_EXAMPLE)
def test_the_graph_computes_what_the_operation_does(code: OperandType, name: str) -> None:
    model = mlip_examples(code)[name]
    values, main = random_inputs(model), model.model.main
    expected = run_on(CpuRef(), model, *values)
    imported = import_hal_model(model)
    given = [signed(main.operands[index], each) for index, each in zip(main.input_indexes, values, strict=True)]
    computed = evaluate(imported.graph, dict(zip(imported.inputs, given, strict=True)))
    for name, index, wanted in zip(imported.outputs, main.output_indexes, expected, strict=True):
        got, operand = computed[imported.graph.outputs[name]].astype(np.float64), main.operands[index]
        if code in ZERO_POINTS:
            got = np.clip(got / operand.scale, -128, 127) + operand.zero_point
        np.testing.assert_allclose(got, wanted.astype(np.float64), atol=TOLERANCES[code], rtol=2e-3)
    assert not imported.refusals


def test_there_is_an_example_of_each_operation() -> None:
    assert {name.partition(" ")[0] for name in mlip_examples(F16)} == {
        OperationType(kind).name for kind in IMPORT_RULES
    }


def test_nodes_carry_the_numbers_and_names_of_operations() -> None:
    recipe = MlipRecipe(F16)
    image = recipe.tensor((1, 6, 5, 4))
    inputs = [image, recipe.weights((3, 1, 1, 4)), recipe.bias(3), *recipe.integers(1, 1, 1, 1)]
    convolved = recipe.operation(OperationType.CONV_2D, inputs, recipe.like())
    model = recipe.finish(recipe.operation(OperationType.RELU6, [convolved], recipe.like()))
    model.names.update({convolved: "features"})  # type: ignore[attr-defined]
    sources = [node.sources[0] for node in import_hal_model(model).graph.nodes]
    assert [source.number for source in sources] == [0, 0, 0, 1]
    assert [source.name for source in sources] == ["features"] * 3 + ["operation 1 (RELU6)"]
    assert [source.kind for source in sources] == ["CONV_2D"] * 3 + ["RELU6"]


def test_names_that_occur_twice_are_told_apart() -> None:
    recipe = MlipRecipe(F16)
    given = [recipe.tensor((4,)), recipe.tensor((4,))]
    results = [recipe.operation(OperationType.RELU, [each], recipe.like()) for each in given]
    model = recipe.finish(*results)
    model.names.update(dict.fromkeys(results, "out") | dict.fromkeys(given, "in"))  # type: ignore[attr-defined]
    imported = import_hal_model(model)
    assert len(set(imported.inputs)) == len(set(imported.outputs)) == 2
    assert imported.graph.outputs.keys() == set(imported.outputs)


def test_an_operation_that_the_flow_cannot_have_is_a_node_between_others() -> None:
    recipe = MlipRecipe(F16)
    clamped = recipe.operation(OperationType.RELU, [recipe.tensor((1, 8))], recipe.like())
    best = recipe.operation(OperationType.TOPK_V2, [clamped, *recipe.integers(4)], Operand(F16), Operand(I32))
    last_of_it = recipe.operation(OperationType.RELU, [best], recipe.like())
    imported = import_hal_model(recipe.finish(last_of_it))
    first, opaque, last = imported.graph.nodes
    assert (opaque.operator, opaque.inputs, len(opaque.outputs)) == ("hal.TOPK_V2", first.outputs, 2)
    assert last.inputs == opaque.outputs[:1]
    assert imported.refusals.keys() == {1}


@pytest.mark.parametrize(
    ("code", "zero_point"), [(Q8AS, 1), (Q8A, 0), (Q8A, 127)], ids=["signed", "unsigned", "almost"]
)
def test_zero_points_other_than_the_middle(code: OperandType, zero_point: int) -> None:
    recipe = Recipe()
    given = recipe.input(code, (4,), 0.5, zero_point)
    model = recipe.build(recipe.operation(OperationType.RELU, [given], Operand(code, (), 0.5, zero_point)))
    reason = import_hal_model(model).refusals[0]
    assert (reason.code, reason.allowed) == ("QUANT", "zero point 0 of signed values, 128 of unsigned ones")
    assert f"zero point {zero_point}" in reason.got
    assert "symmetrically" in reason.hint


def test_a_float32_model_that_is_not_relaxed() -> None:
    reason = import_hal_model(single(OperationType.RELU, F32, [(4,)])).refusals[0]
    assert (reason.code, reason.got) == ("DTYPE", "input 0 of TENSOR_FLOAT32 in a model that is not relaxed")
    assert "relaxComputationFloat32toFloat16" in reason.hint


def test_elements_that_are_no_activations() -> None:
    model = single(OperationType.ADD, I32, [(4,), (4,)], [0])
    assert import_hal_model(model).refusals[0].code == "DTYPE"


@pytest.mark.parametrize(("dimensions", "got"), [((0, 4), "[?, 4]"), ((), "unknown rank")])
def test_dimensions_that_are_not_known(dimensions: tuple[int, ...], got: str) -> None:
    reason = import_hal_model(single(OperationType.RELU, F16, [dimensions])).refusals[0]
    assert (reason.code, reason.got) == ("DYN_SHAPE", f"input 0 of {got}")


def test_tensors_of_five_axes() -> None:
    recipe = MlipRecipe(F16)
    inputs = [recipe.tensor((1, 2, 3, 4)), *recipe.integers(0)]
    model = recipe.finish(recipe.operation(OperationType.EXPAND_DIMS, inputs, recipe.like()))
    reason = import_hal_model(model).refusals[0]
    assert (reason.code, reason.got, reason.allowed) == ("RANK", "output 0 of rank 5", "rank 1 to 4")


@pytest.mark.parametrize("position", [1, 2])
def test_weights_that_are_fed(position: int) -> None:
    recipe = MlipRecipe(F16)
    inputs = [recipe.tensor((2, 4)), recipe.weights((3, 4)), recipe.bias(3), *recipe.integers(0)]
    inputs[position] = recipe.tensor(((3, 4), (3,))[position - 1])
    model = recipe.finish(recipe.operation(OperationType.FULLY_CONNECTED, inputs, recipe.like()))
    reason = import_hal_model(model).refusals[0]
    assert (reason.code, reason.got) == ("CONSTANT", f"input {position} that is computed or fed at run time")


def test_an_operation_on_constants_only() -> None:
    recipe = MlipRecipe(F16)
    inputs = [recipe.values((4,)), recipe.values((4,)), *recipe.integers(0)]
    reason = import_hal_model(recipe.finish(recipe.operation(OperationType.ADD, inputs, recipe.like()))).refusals[0]
    assert (reason.code, reason.allowed) == ("CONSTANT", "an input that is computed or fed")


@pytest.mark.parametrize("value", [65_505.0, np.inf, np.nan])
def test_constants_that_float16_cannot_hold(value: float) -> None:
    recipe = MlipRecipe(F32)
    inputs = [recipe.tensor((4,)), recipe.constant(F32, [1, 2, value, 3]), *recipe.integers(0)]
    reason = import_hal_model(recipe.finish(recipe.operation(OperationType.ADD, inputs, recipe.like()))).refusals[0]
    assert (reason.code, reason.allowed) == ("DTYPE", "magnitudes of at most 65504, as float16 has them")


def test_nodes_of_onnx_are_not_for_devices() -> None:
    erf = onnx_model([helper.make_node("Erf", ["x"], ["y"])], {"x": (1, 4)}, ["y"])
    model = import_model(erf).resolved()
    (answer,) = supported_operations(model)
    assert isinstance(answer, Unsupported)
    assert (answer.code, answer.got) == ("OP", "operation 0 of nnhal.onnx")
