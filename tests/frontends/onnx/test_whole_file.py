"""Files as one operation, made without converting their nodes: what users see of them is what the importer has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnhal.extensions.onnx import OPERATION
from nnhal.memory import create_read_only, read_pools
from nnhal.resolved import inline_constants
from nnhal.types import Ashmem, MappableFile
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.limits import DEFAULT_LIMITS
from nnhal_frontends.onnx import import_onnx
from nnhal_frontends.onnx.weights_apart import LEAST_BYTES
from nnhal_frontends.onnx.whole_file import declared_file
from nnhal_frontends.weights_pool import WeightsPool
from tests.support.external_data import LOCATION, START, contents, layers, matrices, opened
from tests.support.onnx_models import onnx_model, random

NODES = [
    helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
    helper.make_node("Add", ["a", "b"], ["c"], name=""),
    helper.make_node("Relu", ["c"], ["y"], name="last"),
]
CONSTANTS = {"w": random(64, 128, seed=1), "b": random(128, seed=2)}


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy, since a model changes when it is read as one operation."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def whole(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None) -> ImportedModel | None:
    found = declared_file(copied(model), shapes or {}, DEFAULT_LIMITS)
    return None if found is None else found.checked()


def seen(imported: ImportedModel) -> list[object]:
    """Return what users see of inputs and outputs."""
    operands = imported.model.main.operands
    return [
        (tensor.name, tensor.element_type, tensor.shape, operands[tensor.operand].type, operands[tensor.operand].scale)
        for tensor in (*imported.inputs, *imported.outputs)
    ]


@pytest.mark.parametrize("shapes", [{}, {"x": (3, 64)}], ids=["open", "given"])
def test_inputs_and_outputs_are_those_of_the_importer(shapes: dict[str, tuple[int, ...]]) -> None:
    model = onnx_model(NODES, {"x": ["rows", 64]}, ["y"], CONSTANTS)
    found = whole(model, shapes)
    assert found is not None
    assert seen(found) == seen(import_onnx(model, shapes))
    assert [operation.type for operation in found.model.main.operations] == [OPERATION]
    assert found.operation_nodes == (("first", "Add_1", "last"),)


def test_large_constants_lie_in_a_pool_and_small_ones_in_the_message() -> None:
    found = whole(onnx_model(NODES, {"x": [2, 64]}, ["y"], CONSTANTS))
    assert found is not None
    values = found.resolved().constants[0]
    (operation,) = found.model.main.operations
    message, _, weights = operation.inputs
    assert CONSTANTS["w"].nbytes > LEAST_BYTES > CONSTANTS["b"].nbytes
    np.testing.assert_array_equal(values[weights], CONSTANTS["w"])
    proto = onnx.ModelProto.FromString(values[message].tobytes())
    assert [value.name for value in proto.graph.input] == ["x", "w"]
    assert [tensor.name for tensor in proto.graph.initializer] == ["b"]


def test_large_nodes_constant_are_constants_too() -> None:
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(CONSTANTS["w"]))
    model = onnx_model([constant, *NODES], {"x": [2, 64]}, ["y"], {"b": CONSTANTS["b"]})
    found = whole(model)
    assert found is not None
    assert seen(found) == seen(import_onnx(model))
    values = found.resolved().constants[0]
    np.testing.assert_array_equal(values[found.model.main.operations[0].inputs[2]], CONSTANTS["w"])


@pytest.mark.parametrize("is_final", [True, False])
def test_values_in_other_files_stay_where_they_are(tmp_path: Path, is_final: bool) -> None:
    content = np.frombuffer(contents(), np.uint8)
    (tmp_path / LOCATION).write_bytes(contents())
    given = create_read_only([(0, content)], len(content)).descriptor if is_final else opened(tmp_path / LOCATION)
    pool = WeightsPool(given, len(content), LOCATION)
    file = declared_file(layers(), {}, DEFAULT_LIMITS, {LOCATION: pool})
    assert file is not None
    found = file.checked()
    assert found is not None
    own = pool.reference
    assert isinstance(own, Ashmem if is_final else MappableFile)
    assert own in found.model.pools
    others = [each for each in found.model.pools if each != own]
    assert sum(each.size for each in others if isinstance(each, Ashmem)) < LEAST_BYTES  # the message
    assert seen(found) == seen(import_onnx(layers(), weights={LOCATION: pool}))
    main, (values,) = found.model.main, inline_constants(found.model, read_pools(found.model.pools))
    places = {main.operands[index].location.offset: values[index] for index in main.operations[0].inputs[2:]}
    first, second = matrices()
    assert sorted(places) == [START, START + first.nbytes]
    np.testing.assert_array_equal(places[START], first)
    np.testing.assert_array_equal(places[START + first.nbytes], second)


def test_operators_on_quantised_numbers_may_read_large_nodes_constant() -> None:
    weights = np.arange(64 * 512).astype(np.uint8).reshape(64, 512)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights)),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("QLinearMatMul", ["q", "scale", "zero", "w", "scale", "zero", "scale", "zero"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "scale", "zero"], ["y"]),
    ]
    constants = {"scale": np.array(0.5, np.float32), "zero": np.array(3, np.uint8)}
    model = onnx_model(nodes, {"x": [2, 64]}, ["y"], constants)
    found = whole(model)
    assert found is not None
    assert seen(found) == seen(import_onnx(model))


def test_constants_that_are_declared_as_inputs_are_none() -> None:
    model = onnx_model(NODES, {"x": [2, 64]}, ["y"], CONSTANTS)
    for name, values in CONSTANTS.items():
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, values.shape))
    found = whole(model)
    assert found is not None
    assert [tensor.name for tensor in found.inputs] == ["x"]
    proto = onnx.ModelProto.FromString(
        found.resolved().constants[0][found.model.main.operations[0].inputs[0]].tobytes()
    )
    assert [value.name for value in proto.graph.input] == ["x", "w"]


def quantised() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    constants = {"scale": np.array(0.5, np.float32), "zero": np.array(3, np.uint8)}
    model = onnx_model(nodes, {"x": [2, 3]}, ["y"], constants)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    return model


def with_sequence() -> onnx.ModelProto:
    model = onnx_model([helper.make_node("SequenceConstruct", ["x", "x"], ["y"])], {"x": [2, 3]}, ["y"])
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3]))
    model.graph.output[0].CopyFrom(helper.make_value_info("y", kind))
    return model


def with_function() -> onnx.ModelProto:
    model = onnx_model([helper.make_node("Twice", ["x"], ["y"], domain="own")], {"x": [2, 3]}, ["y"])
    opsets = list(model.opset_import)
    body = helper.make_function("own", "Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"])], opsets)
    model.functions.append(body)
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(quantised(), id="a scale that passes find"),
        pytest.param(with_sequence(), id="a sequence"),
        pytest.param(with_function(), id="a function"),
        pytest.param(onnx_model([], {"x": [2, 3]}, ["x"]), id="an output that no node makes"),
        pytest.param(onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [0, 3]}, ["y"]), id="no elements"),
    ],
)
def test_what_only_the_importer_can_tell_is_left_to_it(model: onnx.ModelProto) -> None:
    assert whole(model) is None


def test_a_model_that_is_not_valid_is_refused() -> None:
    with pytest.raises(InvalidModel, match="not a valid ONNX model"):
        whole(onnx_model([helper.make_node("Relu", ["missing"], ["y"])], {"x": [2, 3]}, ["y"]))
    with pytest.raises(InvalidModel, match="a shape is given for 'z'"):
        whole(onnx_model(NODES, {"x": [2, 64]}, ["y"], CONSTANTS), {"z": (1,)})


def declaring(output: list[int | str]) -> onnx.ModelProto:
    model = onnx_model(NODES, {"x": ["rows", 64]}, ["y"], CONSTANTS)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, output))
    return model


def test_a_file_with_the_outputs_that_it_declares_is_made_once() -> None:
    file = declared_file(declaring(["any", 128]), {}, DEFAULT_LIMITS)
    assert file is not None and file.as_declared is not None
    found = file.checked()
    assert found is not None and found.model is file.as_declared.model


def test_outputs_that_are_not_as_declared_are_made_again() -> None:
    file = declared_file(declaring([7, 99]), {}, DEFAULT_LIMITS)
    assert file is not None and file.as_declared is not None
    assert [tensor.shape for tensor in file.as_declared.outputs] == [(7, 99)]
    found = file.checked()
    assert found is not None and seen(found) == seen(import_onnx(declaring([7, 99])))
    assert [tensor.shape for tensor in found.outputs] == [(0, 128)]
    assert found.warnings


def test_a_file_that_does_not_declare_its_outputs_has_none_before_it_is_checked() -> None:
    model = declaring([])
    model.graph.output[0].type.tensor_type.ClearField("shape")
    file = declared_file(copied(model), {}, DEFAULT_LIMITS)
    assert file is not None and file.as_declared is None
    found = file.checked()
    assert found is not None and seen(found) == seen(import_onnx(model))
