"""Steps of an imported model in the words of its file: ONNX's nodes, as one operation of nnhal.onnx."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal.resolved import propagate_dimensions
from nnhal.support import SUPPORTED
from nnhal.types import Model, OperationType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.session import session_options
from nnhal_devices.driver import DriverOptions
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.onnx import import_onnx
from nnhal_service.partition import Step
from nnhal_service.partition.step_model import StepMaker
from tests.support.extended import messages, run_extended
from tests.support.onnx_models import by_onnxruntime, onnx_model, random, resolved

X = random(2, 3, 8, 8)


def in_words(imported: ImportedModel) -> ImportedModel:
    """Return a model as the one operation that its file's nodes are."""
    main = imported.model.main
    return _imported(imported, worded(imported, imported.model, main.input_indexes, main.output_indexes))


def worded(imported: ImportedModel, step: Model, inputs: Sequence[int], outputs: Sequence[int]) -> Model:
    assert imported.source is not None
    found = imported.source.model_of(step, inputs, outputs)
    assert found is not None
    return found


def _imported(imported: ImportedModel, model: Model) -> ImportedModel:
    indexes = (*model.main.input_indexes, *model.main.output_indexes)
    tensors = (*imported.inputs, *imported.outputs)
    moved = [replace(tensor, operand=index) for tensor, index in zip(tensors, indexes, strict=True)]
    count = len(imported.inputs)
    return replace(imported, model=model, inputs=tuple(moved[:count]), outputs=tuple(moved[count:]))


def step_of(imported: ImportedModel, operations: Sequence[int]) -> Step:
    """Return a step of some operations."""
    return StepMaker(imported.model, propagate_dimensions(resolved(imported.model))).step("any", operations)


def kinds(model: Model) -> list[str]:
    """The operators of a step in the file's words."""
    (message,) = messages(ImportedModel(model, (), (), (), (), ()))
    return [node.op_type for node in message.graph.node]


def check(
    model: onnx.ModelProto, inputs: dict[str, Any], shapes: dict[str, Sequence[int]] | None = None
) -> ImportedModel:
    """Import a model, and check that cpu_acc computes the file's nodes as ONNX Runtime computes the file."""
    imported = in_words(import_onnx(model, shapes))
    driver = CpuAcc(DriverOptions())
    assert driver.supported_operations(resolved(imported.model)) == [SUPPORTED]
    found = run_extended(driver, imported, inputs)
    for tensor, wanted in zip(imported.outputs, by_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(found[tensor.name], np.atleast_1d(wanted), 1e-5, 1e-5)
        assert found[tensor.name].dtype == (np.uint8 if wanted.dtype == np.bool_ else wanted.dtype)
    return imported


def test_nodes_stay_as_the_file_has_them() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.1),
        helper.make_node("Gelu", ["b"], ["c"], approximate="tanh"),
        helper.make_node("LayerNormalization", ["c", "scale"], ["y"]),
    ]
    constants = {"w": random(4, 3, 3, 3), "scale": np.ones(8, np.float32)}
    imported = check(onnx_model(nodes, {"x": [2, 3, 8, 8]}, ["y"], constants), {"x": X})
    assert kinds(imported.model) == ["Conv", "LeakyRelu", "Gelu", "LayerNormalization"]


@pytest.mark.parametrize("element_type", [np.float32, np.float16, np.int64, np.int32, np.bool_, np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_inputs_and_outputs_of_any_type_and_rank(element_type: type[np.generic], shape: tuple[int, ...]) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat_shape"], ["flat"]),
        helper.make_node("Reshape", ["flat", "shape"], ["y"]),
        helper.make_node("Concat", ["flat", "flat"], ["z"], axis=0),
    ]
    constants = {"flat_shape": np.array([-1], np.int64), "shape": np.array(shape, np.int64)}
    model = onnx_model(nodes, {"x": shape}, ["y", "z"], constants, element_type=element_type)
    check(model, {"x": np.asarray(random(*shape) * 10, element_type)})


def test_names_that_the_graph_would_choose_are_kept_apart() -> None:
    nodes = [
        helper.make_node("Greater", ["t1", "input0"], ["output0"]),
        helper.make_node("Cast", ["output0"], ["t2"], to=TensorProto.FLOAT),
    ]
    inputs = {"t1": random(3, seed=1), "input0": random(3, seed=2)}
    check(onnx_model(nodes, {name: [3] for name in inputs}, ["output0", "t2"]), inputs)


def test_an_output_may_be_an_input_a_constant_or_another_output() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Identity", ["k"], ["constant"]),
        helper.make_node("Tanh", ["same"], ["y"]),
        helper.make_node("Identity", ["y"], ["again"]),
    ]
    model = onnx_model(nodes, {"x": [3]}, ["same", "constant", "y", "again"], {"k": random(3)})
    check(model, {"x": random(3, seed=1)})


def test_branches_read_tensors_under_names_that_were_identities() -> None:
    branches = {
        name: helper.make_graph(
            [helper.make_node(operator, ["seen"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])],
        )
        for name, operator in (("then", "Tanh"), ("else", "Sin"))
    }
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Identity", ["a"], ["seen"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branches["then"], else_branch=branches["else"]),
    ]
    model = onnx_model(nodes, {"x": [3], "c": []}, ["y"], element_types={"c": np.bool_})
    for condition in (True, False):
        check(model, {"x": random(3), "c": np.array(condition)})


def test_a_branch_that_contradicts_the_known_dimensions_is_no_objection() -> None:
    value = helper.make_tensor_value_info
    then = helper.make_graph([helper.make_node("Tanh", ["x"], ["t"])], "t", [], [value("t", TensorProto.FLOAT, None)])
    other = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["e"])], "e", [], [value("e", TensorProto.FLOAT, None)]
    )
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    inputs = {"x": ["rows", "columns"], "c": []}
    model = onnx_model(nodes, inputs, ["y"], {"w": random(4, 4)}, element_types={"c": np.bool_})
    given = {"x": random(2, 3), "c": np.array(True)}
    check(model, given, {"x": [2, 3]})


@pytest.mark.parametrize("element_type", [np.int8, np.uint8])
def test_a_quantised_network_rounds_as_onnx_runtime_does(element_type: type[np.generic]) -> None:
    zero = np.zeros((), element_type)
    constants = {
        "w": np.random.default_rng(1).integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        "bias": np.arange(4, dtype=np.int32),
        "fine": np.array(0.01, np.float32),
        "coarse": np.array(0.05, np.float32),
        "product": np.array(0.0001, np.float32),
        "none": np.zeros((), np.int8),
        "nothing": np.zeros((), np.int32),
        "zero": zero,
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "fine", "zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "fine", "zero"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "fine", "none"], ["wd"]),
        helper.make_node("DequantizeLinear", ["bias", "product", "nothing"], ["bd"]),
        helper.make_node("Conv", ["xd", "wd", "bd"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "coarse", "zero"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "coarse", "zero"], ["cd"]),
        helper.make_node("Sigmoid", ["cd"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "fine", "zero"], ["sq"]),
        helper.make_node("DequantizeLinear", ["sq", "fine", "zero"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": [2, 3, 8, 8]}, ["y"], constants)
    imported = in_words(import_onnx(model))
    session = onnxruntime.InferenceSession(model.SerializeToString(), session_options(1), ["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(run_extended(CpuAcc(DriverOptions()), imported, {"x": X})["y"], wanted)


def test_large_constants_lie_in_one_pool_that_steps_share() -> None:
    weights = {"w": random(64, 64), "v": random(64, 64, seed=1)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "v"], ["y"])]
    imported = import_onnx(onnx_model(nodes, {"x": [2, 64]}, ["y"], weights))
    steps = [step_of(imported, [number]) for number in range(2)]
    models = [worded(imported, step.model, step.inputs, step.outputs) for step in steps]
    assert models[0].pools[1] is models[1].pools[1]
    assert len(resolved(models[0]).constants[0][models[0].main.operations[0].inputs[0]]) < 1024  # the message


def test_a_step_is_the_nodes_between_its_borders() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("LeakyRelu", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("Sin", ["c"], ["y"]),
    ]
    imported = import_onnx(onnx_model(nodes, {"x": [2, 3]}, ["y"]))
    types = [OperationType(operation.type) for operation in imported.model.main.operations]
    before = step_of(imported, [types.index(OperationType.TANH)])
    after = step_of(imported, [number for number, code in enumerate(types) if code != OperationType.TANH])
    assert kinds(worded(imported, before.model, before.inputs, before.outputs)) == ["Tanh"]
    assert kinds(worded(imported, after.model, after.inputs, after.outputs))[::2] == ["LeakyRelu", "Sin"]


def test_a_step_that_parts_what_one_node_became_has_no_words() -> None:
    node = helper.make_node("Gelu", ["x"], ["y"], approximate="tanh")
    imported = import_onnx(onnx_model([node], {"x": [2, 3]}, ["y"]))
    assert len(imported.model.main.operations) > 1
    step = step_of(imported, [0])
    assert imported.source is not None
    assert imported.source.model_of(step.model, step.inputs, step.outputs) is None


def test_a_quantised_value_is_a_border() -> None:
    q = ["scale", "zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *q], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", *q], ["xd"]),
        helper.make_node("Sigmoid", ["xd"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "fine", "low"], ["sq"]),
        helper.make_node("DequantizeLinear", ["sq", "fine", "low"], ["y"]),
    ]
    constants = {
        "scale": np.array(0.05, np.float32),
        "zero": np.array(3, np.int8),
        "fine": np.array(1 / 256, np.float32),
        "low": np.array(-128, np.int8),
    }
    model = onnx_model(nodes, {"x": [2, 3]}, ["y"], constants)
    imported = import_onnx(model)
    last = len(imported.model.main.operations)
    values: dict[int, Array] = {imported.inputs[0].operand: random(2, 3)}
    for operations in (range(1), range(1, last)):
        step = step_of(imported, operations)
        found = worded(imported, step.model, step.inputs, step.outputs)
        assert "DequantizeLinear" in kinds(found) or "QuantizeLinear" in kinds(found)
        tensors = [replace(imported.inputs[0], name=str(n), operand=n) for n in (*step.inputs, *step.outputs)]
        part = replace(imported, inputs=tuple(tensors[: len(step.inputs)]), outputs=tuple(tensors[len(step.inputs) :]))
        results = run_extended(
            CpuAcc(DriverOptions()), _imported(part, found), {str(n): values[n] for n in step.inputs}
        )
        values |= {number: results[str(number)] for number in step.outputs}
    (wanted,) = by_onnxruntime(model, {"x": random(2, 3)})
    np.testing.assert_allclose(values[imported.outputs[0].operand], wanted, atol=1 / 256)


def test_open_dimensions_stay_open() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["a"]), helper.make_node("Slice", ["a", "one", "big"], ["y"])]
    constants = {"one": np.array([1], np.int64), "big": np.array([9], np.int64)}
    model = onnx_model(nodes, {"x": ["rows", 4]}, ["y"], constants)
    for rows in (1, 5):
        check(model, {"x": random(rows, 4)})
