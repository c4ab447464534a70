"""Shapes of results, and what is refused, by the node's name."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowValue
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.graph.shapes import infer

CONV: dict[str, Attribute] = {
    "strides": (1, 1),
    "padding": (0, 0, 0, 0),
    "dilation": (1, 1),
    "groups": 1,
    "channels": 8,
    "kernel_size": (3, 3),
    "data_layout": "NCHW",
    "kernel_layout": "OIHW",
}
POOL: dict[str, Attribute] = {
    "pool_size": (3, 3),
    "strides": (2, 2),
    "dilation": (1, 1),
    "padding": (0, 0, 0, 0),
    "ceil_mode": False,
    "layout": "NCHW",
}


def shape(operator: str, *inputs: tuple[int, ...], **attributes: Attribute) -> tuple[int, ...]:
    values = [FlowValue(each, np.dtype(np.float32)) for each in inputs]
    return infer(operator, values, attributes, "mine").shape


def test_convolutions() -> None:
    data, weight = (2, 4, 10, 12), (8, 4, 3, 3)
    assert shape("conv2d", data, weight, **CONV) == (2, 8, 8, 10)
    assert shape("conv2d", data, weight, **{**CONV, "strides": (2, 3), "padding": (1, 0, 2, 1)}) == (2, 8, 6, 4)
    assert shape("conv2d", data, weight, **{**CONV, "dilation": (2, 4)}) == (2, 8, 6, 4)
    nhwc: dict[str, Attribute] = {**CONV, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    assert shape("conv2d", (2, 10, 12, 4), (3, 3, 4, 8), **nhwc) == (2, 8, 10, 8)
    assert shape("conv2d", data, (8, 1, 3, 3), **{**CONV, "groups": 4}) == (2, 8, 8, 10)
    assert shape("conv2d", (0, 4, 0, 12), weight, **CONV) == (0, 8, 0, 10)


def test_pools() -> None:
    data = (1, 5, 8, 9)
    assert shape("max_pool2d", data, **POOL) == (1, 5, 3, 4)
    assert shape("max_pool2d", data, **{**POOL, "ceil_mode": True}) == (1, 5, 4, 4)
    assert shape("avg_pool2d", data, **POOL, count_include_pad=False) == (1, 5, 3, 4)
    assert shape("max_pool2d", (1, 8, 9, 5), **{**POOL, "layout": "NHWC"}) == (1, 3, 4, 5)
    assert shape("global_avg_pool2d", data, layout="NCHW") == (1, 5, 1, 1)
    assert shape("global_max_pool2d", data, layout="NHWC") == (1, 1, 1, 9)


def test_movements() -> None:
    assert shape("transpose", (2, 3, 4), axes=(2, 0, -2)) == (4, 2, 3)
    assert shape("layout_transform", (2, 3, 4, 5), src_layout="NCHW", dst_layout="NHWC") == (2, 4, 5, 3)
    assert shape("reshape", (2, 3, 4), newshape=(6, 4)) == (6, 4)
    assert shape("batch_flatten", (2, 3, 4)) == (2, 12)
    assert shape("squeeze", (1, 3, 1), axis=(0, -1)) == (3,)
    assert shape("pad", (2, 3), pad_width=(1, 0, 2, 3), pad_value=0.0, pad_mode="constant") == (3, 8)
    assert shape("concatenate", (2, 3), (2, 0), (2, 5), axis=-1) == (2, 0)
    assert shape("concatenate", (2, 3), (4, 3), axis=0) == (6, 3)
    assert shape("mean", (2, 3, 4), axis=(0, -1), keepdims=False) == (3,)
    assert shape("mean", (2, 3, 4), axis=(1,), keepdims=True) == (2, 1, 4)


def test_broadcasts_and_products() -> None:
    assert shape("add", (2, 1, 4), (3, 1)) == (2, 3, 4)
    assert shape("multiply", (0, 3), (1, 3)) == (0, 3)
    assert shape("divide", (), (2, 3)) == (2, 3)
    assert shape("dense", (5, 2, 3), (4, 3)) == (5, 2, 4)


WRONG: list[tuple[str, list[tuple[int, ...]], dict[str, Attribute], str]] = [
    ("conv2d", [(1, 4, 9, 9), (8, 3, 3, 3)], CONV, "4 input channels"),
    ("conv2d", [(1, 4, 9, 9), (8, 2, 3, 3)], {**CONV, "groups": 3}, "3 groups"),
    ("conv2d", [(1, 4, 9, 9), (8, 4, 3, 3)], {**CONV, "groups": 0}, "0 groups"),
    ("conv2d", [(1, 4, 9, 9), (8, 4, 3, 3)], {**CONV, "channels": 7}, "channels 7"),
    ("conv2d", [(1, 4, 9, 9), (8, 4, 3, 3)], {**CONV, "kernel_size": (3, 1)}, "kernel_size"),
    ("conv2d", [(1, 4, 9, 9), (8, 4, 3, 3)], {**CONV, "data_layout": "NCHW4c"}, "data_layout 'NCHW4c'"),
    ("conv2d", [(1, 4, 9, 9), (8, 4, 3, 3)], {**CONV, "strides": (0, 1)}, "strides"),
    ("conv2d", [(1, 4, 9, 9), (8, 4, 3, 3)], {**CONV, "padding": (1, 1)}, "expected 4 integers"),
    ("conv2d", [(1, 4, 2, 9), (8, 4, 3, 3)], CONV, "a window that fits"),
    ("conv2d", [(4, 9, 9), (8, 4, 3, 3)], CONV, "rank 4"),
    ("conv2d", [(1, 4, 9, 9)], CONV, "got 1 inputs, expected 2"),
    ("conv2d", [(1, 4, 9, 9), (8, 4, 3, 3)], {"groups": 1}, "expected also data_layout"),
    ("max_pool2d", [(1, 4, 9, 9)], {**POOL, "ceil_mode": "yes"}, "ceil_mode 'yes'"),
    ("avg_pool2d", [(1, 4, 9, 9)], POOL, "count_include_pad"),
    ("add", [(2, 3), (2,)], {}, r"\[2, 3\] and \[2\]"),
    ("bias_add", [(1, 4, 2), (2,)], {"axis": 1}, "4 elements"),
    ("bias_add", [(1, 4), (4,)], {"axis": 2}, "axis 2"),
    ("batch_norm", [(1, 4), (4,), (4,), (4,), (5,)], {"axis": 1, "epsilon": 0.1}, "input 4"),
    ("dense", [(1, 4), (5, 3)], {}, r"weights \[O, I\]"),
    ("concatenate", [], {"axis": 0}, "0 inputs"),
    ("concatenate", [(2, 3), (2, 3, 1)], {"axis": 0}, "equal shapes"),
    ("concatenate", [(2, 3), (2, 4)], {"axis": 0}, "equal shapes"),
    ("reshape", [(2, 3)], {"newshape": (3, -1)}, "at least 1"),
    ("reshape", [(2, 3)], {"newshape": (4, 2)}, "equally many elements"),
    ("squeeze", [(2, 1)], {"axis": (0,)}, "axes of length 1"),
    ("squeeze", [(2, 1)], {"axis": ()}, "axes of length 1"),
    ("transpose", [(2, 1)], {"axes": (0, 0)}, "each axis once"),
    ("transpose", [(2, 1)], {"axes": (0,)}, "each axis once"),
    ("layout_transform", [(2, 1)], {"src_layout": "NCHW", "dst_layout": "NHWC"}, "rank 4"),
    ("layout_transform", [(2, 1)], {"src_layout": "NC", "dst_layout": "NH"}, "the same letters"),
    ("pad", [(2, 3)], {"pad_width": (1, 1), "pad_value": 0.0, "pad_mode": "edge"}, "4 integers"),
    ("pad", [(2,)], {"pad_width": (1, 1), "pad_value": 0.0, "pad_mode": "wrap"}, "constant, edge, reflect"),
    ("pad", [(2,)], {"pad_width": (2, 1), "pad_value": 0.0, "pad_mode": "reflect"}, "less than the length"),
    ("clip", [(2,)], {"a_min": 0.0, "a_max": "six"}, "a_max 'six'"),
    ("softmax", [(2,)], {"axis": 1}, "axis 1"),
    ("onnx.Erf", [(2,)], {}, "no types of its results"),
]


@pytest.mark.parametrize(("operator", "inputs", "attributes", "message"), WRONG)
def test_what_does_not_fit_is_refused_by_name(
    operator: str, inputs: list[tuple[int, ...]], attributes: dict[str, Attribute], message: str
) -> None:
    with pytest.raises(FlowError, match=message) as caught:
        shape(operator, *inputs, **attributes)
    assert str(caught.value).startswith(f"node 'mine' ({operator}): got ")


def test_every_operator_has_a_rule() -> None:
    for operator in Operator:
        with pytest.raises(FlowError, match="inputs"):
            infer(operator, [], {}, "mine")
