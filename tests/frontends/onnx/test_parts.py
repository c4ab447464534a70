"""Some nodes of an ONNX file as a model of their own."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from nnhal.memory import create_read_only
from nnhal_frontends import DEFAULT_LIMITS
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.onnx import import_onnx
from nnhal_frontends.onnx.parts import OnnxParts
from nnhal_frontends.weights_pool import WeightsPool
from tests.support.external_data import LOCATION, SIDE, contents, layers

FLOATS = TensorProto.FLOAT


def branching() -> ModelProto:
    """``y`` and ``z`` of ``x``; an If reads ``a``, and its constant ``w``, from the graph around it."""

    def branch(op_type: str) -> object:
        out = helper.make_tensor_value_info("r", FLOATS, [1, 8])
        return helper.make_graph([helper.make_node(op_type, ["a", "w"], ["r"])], op_type, [], [out])

    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["b"], then_branch=branch("Add"), else_branch=branch("Mul")),
        helper.make_node("Tanh", ["b"], ["y"]),
        helper.make_node("Neg", ["b"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOATS, [1, "n"])],
        [helper.make_tensor_value_info(name, FLOATS, None) for name in ("y", "z")],
        [numpy_helper.from_array(np.full((1, 8), 3, np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def test_a_part_reads_and_writes_what_crosses_its_border() -> None:
    parts = OnnxParts(branching(), DEFAULT_LIMITS, {"x": (1, 8)})
    part = parts.part([3, 4])
    assert [value.name for value in part.graph.input] == ["c", "a"]
    assert [value.name for value in part.graph.output] == ["b", "y"]
    assert [tensor.name for tensor in part.graph.initializer] == ["w"]
    assert [dim.dim_value for dim in part.graph.input[1].type.tensor_type.shape.dim] == [1, 8]
    assert import_onnx(part).inputs[0].element_type == np.bool_


def test_parts_compute_what_the_whole_computes() -> None:
    model = branching()
    parts = OnnxParts(model, DEFAULT_LIMITS)
    values = {"x": np.arange(8, dtype=np.float32).reshape(1, 8) - 3}
    expected = list(ReferenceEvaluator(model).run(None, values))
    for numbers in ([0, 1, 2], [3], [4, 5]):
        part = parts.part(numbers)
        given = {value.name: values[value.name] for value in part.graph.input}
        names = [value.name for value in part.graph.output]
        values |= dict(zip(names, map(np.asarray, ReferenceEvaluator(part).run(None, given)), strict=True))
    assert all(np.array_equal(values[name], want) for name, want in zip("yz", expected, strict=True))


def test_a_part_without_inputs_or_outputs_is_refused() -> None:
    constant = helper.make_node("Constant", [], ["k"], value_float=1.0)
    unused = helper.make_node("Neg", ["x"], ["unused"])
    model = branching()
    model.graph.node.extend([constant, unused])
    parts = OnnxParts(model, DEFAULT_LIMITS)
    with pytest.raises(InvalidModel, match="the part has no inputs"):
        parts.part([6])
    with pytest.raises(InvalidModel, match="the part has no outputs"):
        parts.part([7])


def test_the_types_at_a_border_follow_from_weights_in_another_file() -> None:
    values = np.frombuffer(contents(), np.uint8)
    memory = create_read_only([(0, values)], len(values), "weights")
    weights = {LOCATION: WeightsPool(memory.descriptor, memory.size, LOCATION)}
    part = OnnxParts(layers(), DEFAULT_LIMITS, weights=weights).part([1, 2])
    assert [dim.dim_value for dim in part.graph.input[0].type.tensor_type.shape.dim] == [1, SIDE]
    imported = import_onnx(part, weights=weights)
    assert [tensor.name for tensor in (*imported.inputs, *imported.outputs)] == ["a", "y"]


def test_a_border_whose_type_nobody_knows_is_refused() -> None:
    nodes = [
        helper.make_node("Unheard", ["x"], ["a"], domain="own"),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, FLOATS, [1]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    parts = OnnxParts(helper.make_model(graph, opset_imports=imports, ir_version=10), DEFAULT_LIMITS)
    with pytest.raises(InvalidModel, match="the type of 'a' is not known, which lies at the border of a part"):
        parts.part([1])
