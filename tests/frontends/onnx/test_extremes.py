"""ONNX models with fields at extremes: they are imported, or refused in words, in little memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from nnhal_frontends import ModelFormat, import_model
from nnhal_frontends.errors import FrontendError
from tests.support.extremes import Extreme, extremes
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit
from tests.support.searching import search

SPARE = 2 << 30
MANY = 300


def network() -> onnx.ModelProto:
    """A convolution, its activation, and a reshape by a constant."""
    weights = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    shape = numpy_helper.from_array(np.array([1, -1]), "s")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], group=1),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Reshape", ["r", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m"])],
        [weights, shape],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@st.deferred
def any_extreme() -> st.SearchStrategy[Extreme]:
    kind: Any = onnx.ModelProto.DESCRIPTOR
    return st.sampled_from(list(extremes(kind, MANY)))


def require_answer(model: onnx.ModelProto, cause: object) -> None:
    with suppress(EncodeError, UnicodeError), memory_limit(SPARE):
        content = model.SerializeToString()
        try:
            import_model(content, ModelFormat.ONNX)
        except FrontendError as error:
            require_plain(str(error), cause)


def test_the_model_is_imported_as_it_is() -> None:
    assert import_model(network().SerializeToString()).model.main.operations


@pytest.mark.slow
@search(60)
@given(any_extreme)
def test_a_field_at_an_extreme_is_imported_or_refused_in_words(extreme: Extreme) -> None:
    require_answer(extreme.applied(network()), extreme)


@pytest.mark.slow
@search(40)
@given(st.lists(any_extreme, min_size=2, max_size=4))
def test_several_fields_at_extremes_are_imported_or_refused_in_words(chosen: list[Extreme]) -> None:
    model = network()
    for extreme in chosen:
        extreme.apply(model)
    require_answer(model, [str(extreme) for extreme in chosen])


def input_of_type_99(graph: onnx.GraphProto) -> None:
    graph.input[0].type.tensor_type.elem_type = 99


def constant_of_type_99(graph: onnx.GraphProto) -> None:
    graph.initializer[0].data_type = 99


def input_of_many_dimensions(graph: onnx.GraphProto) -> None:
    graph.input[0].type.tensor_type.shape.dim.extend([onnx.TensorShapeProto.Dimension(dim_value=1)] * 10**5)


def constant_of_many_dimensions(graph: onnx.GraphProto) -> None:
    graph.initializer[0].dims.extend([1] * 10**5)


def constant_that_is_too_large(graph: onnx.GraphProto) -> None:
    graph.initializer[0].dims[:] = [2**31, 2**31]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (input_of_type_99, "99"),
        (constant_of_type_99, "99"),
        (input_of_many_dimensions, "dimensions|shape|rank"),
        (constant_of_many_dimensions, "dimensions|shape|rank"),
        (constant_that_is_too_large, "dimensions|shape|values"),
    ],
)
def test_what_no_model_has_is_refused_in_words(change: Callable[[onnx.GraphProto], None], words: str) -> None:
    model = network()
    change(model.graph)
    with memory_limit(SPARE), pytest.raises(FrontendError, match=words) as caught:
        import_model(model.SerializeToString(), ModelFormat.ONNX)
    require_plain(str(caught.value))
