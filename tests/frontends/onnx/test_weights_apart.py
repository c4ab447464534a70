"""Models without their weights, as ONNX's own tools get them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from nnhal.arrays import Array
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.onnx.graph import read_graph
from nnhal_frontends.onnx.importer import import_onnx
from nnhal_frontends.onnx.weights_apart import set_weights_apart
from tests.support.onnx_models import onnx_model

SIDE = 128


def weights(factor: float = 1.0) -> Array:
    """Values of 64 KiB."""
    return np.full((SIDE, SIDE), factor, np.float32)


def product(as_node: bool = False) -> onnx.ModelProto:
    """An input times weights, which are an initializer or a node Constant."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    if as_node:
        values = numpy_helper.from_array(weights(), "values")
        nodes.insert(0, helper.make_node("Constant", [], ["w"], "weights", value=values))
    return onnx_model(nodes, {"x": [1, SIDE]}, ["y"], {} if as_node else {"w": weights()})


@pytest.mark.parametrize("as_node", [False, True])
def test_large_tensors_are_inputs(as_node: bool) -> None:
    model = product(as_node)
    before = model.SerializeToString()
    apart = set_weights_apart(model)
    assert len(apart.model.SerializeToString()) < 1024
    assert len(apart.model.graph.input) == 2
    assert model.SerializeToString() == before
    onnx.checker.check_model(apart.model)


def test_a_model_without_large_tensors_stays_as_it_is() -> None:
    model = onnx_model([helper.make_node("Add", ["x", "c"], ["y"])], {"x": [2]}, ["y"], {"c": np.ones(2, np.float32)})
    assert set_weights_apart(model).model is model


@pytest.mark.parametrize("as_node", [False, True])
def test_the_graph_has_the_weights_and_only_the_users_inputs(as_node: bool) -> None:
    graph = read_graph(product(as_node))
    assert graph.inputs == ("x",)
    assert [node.op_type for node in graph.nodes] == ["Constant", "MatMul"] if as_node else ["MatMul"]
    imported = import_onnx(product(as_node))
    assert [tensor.name for tensor in imported.inputs] == ["x"]
    assert imported.folded_nodes == (("weights",) if as_node else ())
    values = [array for array in imported.resolved().constants[0].values() if array.size == SIDE * SIDE]
    assert [float(array.sum()) for array in values] == [SIDE * SIDE]


def test_a_message_about_shapes_names_the_users_inputs_only() -> None:
    with pytest.raises(InvalidModel, match=r"a shape is given for 'z', the model's inputs are \['x'\]"):
        read_graph(product(), {"z": (1, SIDE)})


@pytest.mark.parametrize("nodes", [["w"], ["w", "w/value", "w/value_"]])
def test_names_of_the_model_are_not_taken(nodes: list[str]) -> None:
    model = product(as_node=True)
    model.graph.node.extend(helper.make_node("Relu", ["y"], [name]) for name in nodes[1:])
    apart = set_weights_apart(model)
    onnx.checker.check_model(apart.model)
    assert apart.added.isdisjoint(nodes)


def test_tensors_that_contradict_themselves_are_refused_as_ever() -> None:
    short = product()
    short.graph.initializer[0].raw_data = bytes(4 * SIDE * SIDE - 4)
    twice = product()
    twice.graph.initializer[0].float_data.append(1.0)
    doubled = product()
    doubled.graph.initializer.append(numpy_helper.from_array(weights(2.0), "w"))
    for model in (short, twice, doubled):
        assert set_weights_apart(model).model is model
        with pytest.raises(InvalidModel, match="not a valid ONNX model"):
            read_graph(model)
