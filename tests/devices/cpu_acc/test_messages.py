"""Messages of nnhal.onnx: opsets, and what is no message."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.extensions.onnx import MESSAGE, NAME, OPERATION, PREFIX, operand_code
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.support import SUPPORTED, Unsupported
from nnhal.types import (
    DataLocation,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal_devices.cpu_acc.messages import MessageError, decode, opsets_of
from nnhal_devices.cpu_acc.support import supported_operations
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions

F32 = OperandType.TENSOR_FLOAT32


def message(node: onnx.NodeProto, opset: int) -> bytes:
    """One node from x to y, of two floats each."""
    x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()


def model(content: bytes, code: int = F32, with_relu: bool = False) -> ResolvedModel:
    """RUN of a message, with RELU behind it or not."""
    location = DataLocation(0, 0, len(content))
    operands = [
        Operand(operand_code(MESSAGE), (len(content),), 0, 0, OperandLifeTime.CONSTANT_COPY, location),
        Operand(code, (2,), lifetime=OperandLifeTime.SUBGRAPH_INPUT),
        Operand(code, (2,), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT),
    ]
    operations = [Operation(OPERATION, (0, 1), (2,))]
    if with_relu:
        operands.append(Operand(code, (2,)))
        operations = [Operation(OPERATION, (0, 1), (3,)), Operation(OperationType.RELU, (3,), (2,))]
    main = Subgraph(tuple(operands), tuple(operations), (1,), (2,))
    made = Model(main, (), content, extension_name_to_prefix=(ExtensionNameAndPrefix(NAME, PREFIX),))
    return ResolvedModel(made, inline_constants(made))


def test_an_operator_that_means_the_same_is_only_given_another_opset() -> None:
    content = message(helper.make_node("Erf", ["x"], ["y"]), 28)
    assert decode(content, 13).opset_import[0].version == 13
    assert opsets_of(model(content)) == {"": 13}
    assert opsets_of(model(content, with_relu=True)) == {"": 21}


def test_an_operator_that_has_changed_is_converted() -> None:
    content = message(helper.make_node("Squeeze", ["x"], ["y"], axes=[0]), 9)
    assert opsets_of(model(content)) == {"": 7}
    (added, squeeze) = decode(content, 21).graph.node
    assert (added.op_type, len(squeeze.input)) == ("Constant", 2)


def test_an_operator_that_cannot_be_converted_is_an_error() -> None:
    with pytest.raises(MessageError, match="SwiGLU"):
        decode(message(helper.make_node("SwiGLU", ["x"], ["y"]), 28), 26)


def test_what_onnx_runtime_has_not_is_declined_in_its_words() -> None:
    (answer,) = supported_operations(model(message(helper.make_node("Nonsense", ["x"], ["y"]), 21)))
    assert isinstance(answer, Unsupported)
    assert "Nonsense" in answer.got


def test_bytes_that_are_no_message_are_declined() -> None:
    (answer,) = supported_operations(model(bytes(np.arange(100, dtype=np.uint8))))
    assert isinstance(answer, Unsupported)
    assert "no ModelProto" in answer.got


def test_other_numbers_of_inputs_than_the_message_has_are_declined() -> None:
    (answer,) = supported_operations(model(message(helper.make_node("RandomNormalLike", ["x"], ["y"]), 21)))
    assert answer == SUPPORTED
    graph = helper.make_graph([], "g", [helper.make_tensor_value_info(name, 1, [2]) for name in "ab"], [])
    (answer,) = supported_operations(model(helper.make_model(graph, ir_version=10).SerializeToString()))
    assert isinstance(answer, Unsupported)
    assert (answer.got, answer.allowed) == ("1 inputs and 1 outputs", "2 inputs and 0 outputs")


def test_elements_that_onnx_packs_are_declined() -> None:
    content = message(helper.make_node("Identity", ["x"], ["y"]), 25)
    assert supported_operations(model(content)) == [SUPPORTED]
    (answer,) = supported_operations(model(content, operand_code(22)))
    assert isinstance(answer, Unsupported)
    assert answer.code == "DTYPE"


def test_a_message_cannot_have_a_device_read_files() -> None:
    proto = onnx.ModelProto.FromString(message(helper.make_node("Add", ["x", "k"], ["y"]), 21))
    tensor = onnx.TensorProto(name="k", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="passwords")
    proto.graph.initializer.append(tensor)
    for _ in range(2):  # what was refused is looked through again
        (answer,) = supported_operations(model(proto.SerializeToString()))
        assert isinstance(answer, Unsupported)
        assert answer.got == "the values of tensor 'k' lie in another file"
    (answer,) = CpuRef(DriverOptions()).supported_operations(model(proto.SerializeToString()))
    assert isinstance(answer, Unsupported)
    assert "the values of tensor 'k' lie in another file" in answer.got


def test_a_message_that_shape_inference_does_not_survive_is_declined() -> None:
    given = model(message(helper.make_node("Einsum", ["x"], ["y"], "it", equation="i..j"), 17))
    by_cpu_ref = CpuRef(DriverOptions()).supported_operations(given)
    for (answer,) in (supported_operations(given), by_cpu_ref):
        assert isinstance(answer, Unsupported)
        assert "node 'it' (Einsum): equation is 'i..j'" in answer.got
