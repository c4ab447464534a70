"""Nodes for which the HAL has no operation, as operations of nnhal.onnx on cpu_acc and cpu_ref."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nnhal.errors import HalError
from nnhal.extensions.onnx import OPERATION, operand_code
from nnhal.support import SUPPORTED
from nnhal.types import OperationType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Driver, DriverOptions
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.onnx import import_onnx
from tests.support.extended import messages, run_extended
from tests.support.onnx_models import onnx_model, random, resolved

X = random(2, 3, 4)


def names(imported: ImportedModel) -> list[str]:
    """The operations by name: RUN for those of the extension."""
    operations = imported.model.main.operations
    return ["RUN" if o.type == OPERATION else OperationType(o.type).name for o in operations]


@pytest.fixture(params=["cpu_acc", "cpu_ref"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return CpuAcc(DriverOptions()) if request.param == "cpu_acc" else CpuRef()


def check(driver: Driver, model: onnx.ModelProto, inputs: dict[str, Any], as_one: bool = False) -> ImportedModel:
    """Import a model, and check that a driver computes the same as ONNX's reference evaluator."""
    imported = import_onnx(model, as_one=as_one)
    assert set(driver.supported_operations(resolved(imported.model))) == {SUPPORTED}
    found = run_extended(driver, imported, inputs)
    expected: Any = ReferenceEvaluator(model).run(None, inputs)
    for tensor, wanted in zip(imported.outputs, expected, strict=True):
        if tensor.element_type.kind == "O":
            np.testing.assert_equal(found[tensor.name], wanted)
            continue
        array = np.asarray(wanted)
        assert found[tensor.name].shape == (array.shape or (1,))
        np.testing.assert_allclose(found[tensor.name], np.atleast_1d(array), 1e-5, 1e-6)
    return imported


def test_nodes_apart_are_merged_with_no_others() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "v", "v", "v", "v"], ["n"], name="norm"),
        helper.make_node("Relu", ["n"], ["r"], name="relu"),
        helper.make_node("Flatten", ["r"], ["y"], name="flat"),
    ]
    model = onnx_model(nodes, {"x": (1, 2, 4, 4)}, ["y"], {"w": random(3, 2, 1, 1), "v": random(3, low=0.5)})
    assert names(import_onnx(model)) == ["CONV_2D", "RESHAPE"]
    apart = import_onnx(model, apart=())
    assert names(apart) == ["CONV_2D", "RUN", "RELU", "RESHAPE"]
    assert apart.operation_nodes == (("conv",), ("norm",), ("relu",), ("flat",))
    assert names(import_onnx(model, apart={"Flatten", "Relu"})) == ["CONV_2D", "RUN", "RUN", "RUN"]


def test_a_failure_names_the_node_as_the_explanation_does() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Gather", ["n", "i"], ["y"])]
    imported = import_onnx(onnx_model(nodes, {"x": (4,), "i": ("n",)}, ["y"], element_types={"i": np.int64}))
    ((name,),) = [names for names in imported.operation_nodes if names[0].startswith("Gather")]
    with pytest.raises(HalError, match=f"ONNX Runtime failed: Gather '{name}': indices element out of data bounds"):
        run_extended(CpuAcc(DriverOptions()), imported, {"x": random(4), "i": np.array([9])})


def test_an_operator_that_the_hal_has_not_is_run_between_those_that_it_has(driver: Driver) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Erf", ["r"], ["e"]),
        helper.make_node("Tanh", ["e"], ["y"]),
    ]
    assert names(check(driver, onnx_model(nodes, {"x": X.shape}, ["y"]), {"x": X})) == ["RELU", "RUN", "TANH"]


def test_a_branch_may_give_a_scalar_where_the_other_gives_a_matrix(driver: Driver) -> None:
    whole, total = (
        helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, shape)])
        for node, shape in (
            (helper.make_node("Relu", ["x"], ["b"]), [2, 3]),
            (helper.make_node("ReduceSum", ["x"], ["b"], keepdims=0), []),
        )
    )
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=whole, else_branch=total)
    model = onnx_model([chosen], {"x": (2, 3), "c": ()}, ["y"], element_types={"c": np.bool_})
    for condition, shape in ((True, (2, 3)), (False, ())):
        found = run_extended(driver, import_onnx(model), {"x": random(2, 3), "c": np.array([condition])})
        assert found["y"].shape == shape


def test_dimensions_may_depend_on_the_data(driver: Driver) -> None:
    model = onnx_model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [2, 3]}, ["y"])
    for values in (np.eye(2, 3), np.zeros((2, 3))):
        check(driver, model, {"x": values.astype(np.float32)})


def test_what_the_hal_computes_after_unknown_dimensions_has_them_too(driver: Driver) -> None:
    nodes = [helper.make_node("Compress", ["x", "c"], ["p"], axis=0), helper.make_node("Relu", ["p"], ["y"])]
    model = onnx_model(nodes, {"x": [4, 3], "c": [4]}, ["y"], element_types={"c": np.bool_})
    inputs = {"x": random(4, 3), "c": np.array([True, False, True, True])}
    assert names(check(driver, model, inputs)) == ["RUN", "RELU"]


def test_64_bits_are_kept(driver: Driver) -> None:
    model = onnx_model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": [2], "b": [2]}, ["y"], element_type=np.int64)
    imported = check(driver, model, {"a": np.array([2**40, -3]), "b": np.array([2**40, 2**62])})
    assert {tensor.element_type for tensor in imported.inputs + imported.outputs} == {np.dtype(np.int64)}


@pytest.mark.parametrize("keepdims", [0, 1])
def test_indices_are_32_bits_for_the_hal_and_64_for_the_user(driver: Driver, keepdims: int) -> None:
    nodes = [helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=keepdims)]
    imported = check(driver, onnx_model(nodes, {"x": [4, 5]}, ["y"]), {"x": random(4, 5)})
    assert names(imported)[0] == "ARGMAX"
    assert names(imported)[-1] == "RUN"
    assert imported.outputs[0].element_type == np.int64


def test_bytes_wrap_as_onnx_has_it(driver: Driver) -> None:
    model = onnx_model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": [2], "b": [2]}, ["y"], element_type=np.int8)
    check(driver, model, {"a": np.array([100, -100], np.int8), "b": np.array([100, 7], np.int8)})


def test_tensors_of_rank_0_keep_their_rank_for_onnx(driver: Driver) -> None:
    nodes = [helper.make_node("Range", ["start", "limit", "delta"], ["y"])]
    model = onnx_model(nodes, {"start": [], "limit": [], "delta": []}, ["y"])
    check(driver, model, {name: np.array(v, np.float32) for name, v in (("start", 1), ("limit", 6), ("delta", 2))})


def test_subgraphs_see_the_tensors_around_them(driver: Driver) -> None:
    one = helper.make_graph(
        [helper.make_node("Add", ["r", "r"], ["sum"])], "then", [], [helper.make_tensor_value_info("sum", 1, [2])]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["r"], ["neg"])], "else", [], [helper.make_tensor_value_info("neg", 1, [2])]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("If", ["c"], ["y"], then_branch=one, else_branch=other),
    ]
    model = onnx_model(nodes, {"x": [2], "c": []}, ["y"], element_types={"c": np.bool_})
    for condition in (True, False):
        imported = check(driver, model, {"x": random(2), "c": np.array(condition)})
    assert names(imported) == ["RELU", "RUN"]
    assert [value.name for value in messages(imported)[0].graph.input] == ["c", "r"]


def test_sequences_pass_between_operations(driver: Driver) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceLength", ["s"], ["n"]),
        helper.make_node("SequenceAt", ["s", "i"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": [2, 3]}, ["n", "y"], {"i": np.array(1)})
    check(driver, model, {"x": random(2, 3)})


def test_strings_are_inputs_and_outputs(driver: Driver) -> None:
    kinds = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in ("a", "b", "y")]
    graph = helper.make_graph([helper.make_node("StringConcat", ["a", "b"], ["y"])], "g", kinds[:2], kinds[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    imported = check(driver, model, {"a": np.array(["x", "ü"], object), "b": np.array(["", "z"], object)})
    assert imported.model.main.operands[imported.inputs[0].operand].type == operand_code(8)


def test_nodes_that_passes_have_merged_are_taken_apart_again(driver: Driver) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="volume"),
        helper.make_node("Relu", ["c"], ["y"], name="positive"),
    ]
    model = onnx_model(nodes, {"x": [1, 2, 4, 4, 4]}, ["y"], {"w": random(3, 2, 2, 2, 2)})
    imported = check(driver, model, {"x": random(1, 2, 4, 4, 4)})
    assert imported.operation_nodes[0] == ("volume",)
    assert names(imported)[0] == "RUN"


def test_operators_of_an_older_opset_stand_between_those_of_the_hal(driver: Driver) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Softplus", ["r"], ["s"]),
        helper.make_node("ReduceLogSumExp", ["s"], ["y"], axes=[1], keepdims=0),
    ]
    model = onnx_model(nodes, {"x": [2, 3]}, ["y"], opset=9)
    assert "RELU" in names(check(driver, model, {"x": random(2, 3)}))


def test_an_input_without_elements_is_none_of_the_hals(driver: Driver) -> None:
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 0]}, ["y"])
    assert names(check(driver, model, {"x": np.zeros((2, 0), np.float32)})) == ["RUN"]


def test_sparse_constants_are_filled_with_zeros(driver: Driver) -> None:
    model = onnx_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [2, 3]}, [])
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3]))
    for name, indices in (("flat", [1, 5]), ("by axis", [[0, 1], [1, 2]])):
        del model.graph.sparse_initializer[:]
        values = helper.make_tensor("w", TensorProto.FLOAT, [2], [7, 8])
        places = helper.make_tensor(name, TensorProto.INT64, np.shape(indices), np.ravel(indices).tolist())
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2, 3]))
        found = run_extended(driver, import_onnx(model), {"x": np.ones((2, 3), np.float32)})
        np.testing.assert_array_equal(found["y"], [[1, 8, 1], [1, 1, 9]])


def test_a_whole_model_can_be_one_operation(driver: Driver) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="m"), helper.make_node("Relu", ["m"], ["y"], name="r")]
    model = onnx_model(nodes, {"x": [2, 3]}, ["y"], {"w": random(3, 2)})
    imported = check(driver, model, {"x": random(2, 3)}, as_one=True)
    assert imported.operation_nodes == (("m", "r"),)
    assert not messages(imported)[0].graph.initializer, "constants are operands"


def test_an_operator_that_no_device_has_is_refused_with_the_reason(driver: Driver) -> None:
    model = onnx_model([helper.make_node("Nonsense", ["x"], ["y"], domain="com.example")], {"x": [2]}, [])
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]))
    (answer,) = driver.supported_operations(resolved(import_onnx(model).model))
    assert answer != SUPPORTED
    assert "Nonsense" in str(answer)
