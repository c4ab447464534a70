from __future__ import annotations

import pytest
from onnx import helper

from nnhal.types import OperationType
from nnhal_frontends import import_model
from nnhal_tools.diff.subject import Subject
from tests.support.onnx_models import onnx_model


@pytest.fixture
def diamond() -> Subject:
    """Four operations: ``a`` is read by ``b`` and ``c``, whose results are multiplied."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"], name="tanh"),
        helper.make_node("Sigmoid", ["a"], ["b"], name="left"),
        helper.make_node("Exp", ["a"], ["c"], name="right"),
        helper.make_node("Mul", ["b", "c"], ["y"], name="product"),
    ]
    return Subject(import_model(onnx_model(nodes, {"x": [2, 3]}, ["y"]).SerializeToString()))


def named(subject: Subject, *names: str) -> set[int]:
    return {operand for operand in subject.computed if subject.name(operand) in names}


def test_every_operation_is_a_layer_if_every_value_is_shown(diamond: Subject) -> None:
    layers = diamond.layers(diamond.computed)
    assert [(layer.number, layer.operations) for layer in layers] == [(n, (n,)) for n in range(4)]
    assert [diamond.nodes(layer.operations) for layer in layers] == [("tanh",), ("left",), ("right",), ("product",)]
    assert [{diamond.name(value) for value in layer.inputs} for layer in layers] == [{"x"}, {"a"}, {"a"}, {"b", "c"}]


def test_an_operation_whose_value_is_not_shown_belongs_to_all_that_need_it(diamond: Subject) -> None:
    layers = diamond.layers(named(diamond, "b", "c", "y"))
    assert [layer.operations for layer in layers] == [(0, 1), (0, 2), (3,)]
    assert [diamond.nodes(layer.operations) for layer in diamond.layers(named(diamond, "y"))] == [
        ("tanh", "left", "right", "product")
    ]


def test_a_layer_is_cut_out_as_a_model_of_its_own(diamond: Subject) -> None:
    (_, layer, _, _) = diamond.layers(diamond.computed)
    model, inputs = diamond.cut(layer.operations, layer.outputs)
    assert [operation.type for operation in model.main.operations] == [OperationType.LOGISTIC]
    assert inputs == layer.inputs
    assert [model.main.operands[index].dimensions for index in model.main.output_indexes] == [(2, 3)]


def test_the_whole_model_is_not_touched(diamond: Subject) -> None:
    model, _ = diamond.cut(diamond.everything, diamond.model.main.output_indexes)
    assert model is diamond.model
