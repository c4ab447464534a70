from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.patterns.matching import match_composites
from tests.support.flow_graphs import GraphOf


def public(graph: FlowGraph, node: str) -> Objection | None:
    """Return why the public rules leave a node on the host, None if they do not."""
    return match_composites(graph, beyond_public=False).objections.get(node)


def check_of(objection: Objection | None) -> str:
    assert objection is not None
    return objection.check


@pytest.mark.parametrize(
    ("batch", "groups", "out", "check"),
    [
        (8, 1, 4, ""),
        (1, 8, 8, ""),
        (9, 1, 4, "conv2d.batch"),
        (0, 1, 4, "conv2d.batch"),
        (1, 2, 8, "conv2d.groups"),
        (1, 8, 16, "conv2d.groups"),
    ],
)
def test_a_convolution_has_a_batch_to_8_and_one_group_or_as_many_as_channels(
    batch: int, groups: int, out: int, check: str
) -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.conv(g.input(batch, 6, 6, 8), out, groups=groups, name="c"))
    objection = public(graph, "c")
    assert (objection.check if objection else "") == check


def test_a_window_of_a_convolution_has_no_limit() -> None:
    g = GraphOf("NHWC")
    value = g.conv(g.input(1, 64, 64, 3), 8, 11, stride=(5, 7), pad=(0, 9, 30, 2), dilation=3, name="c")
    assert public(g.build(value), "c") is None


def test_a_convolution_in_channels_first_is_refused_for_its_layout() -> None:
    g = GraphOf("NCHW")
    objection = public(g.build(g.conv(g.input(1, 3, 8, 8), 4, name="c")), "c")
    assert objection is not None
    assert (objection.check, objection.got, objection.allowed) == ("conv2d.data_layout", "NCHW", "NHWC")


def test_weights_that_are_not_constant_are_refused_for_that_reason() -> None:
    g = GraphOf("NHWC")
    conv = g.conv(g.input(1, 8, 8, 3), 4, weight=g.input(4, 3, 3, 3, name="w"), name="c")
    dense = g.dense(g.input(1, 8, name="y"), 4, weight=g.input(4, 8, name="v"), name="d")
    matches = match_composites(g.build(conv, dense), beyond_public=True)
    assert not matches.kernels
    for name, weight in (("c", "w"), ("d", "v")):
        assert matches.objections[name].code == "CONSTANT"
        assert weight in matches.objections[name].got


@pytest.mark.parametrize("element_type", ["float16", "float64"])
def test_public_layers_are_of_float32(element_type: str) -> None:
    g = GraphOf("NHWC", element_type=element_type)
    value = g.max_pool(g.conv(g.input(1, 8, 8, 3), 4, name="c"), name="p")
    flat = g.flatten(value, name="f")
    graph = g.build(g.dense(flat, 3, name="d"))
    for name in ("c", "p", "f", "d"):
        objection = public(graph, name)
        assert objection is not None
        assert (objection.code, objection.got) == ("DTYPE", element_type)


@pytest.mark.parametrize(("batch", "check"), [(1, ""), (0, ""), (2, "avg_pool2d.batch")])
def test_an_average_pool_has_batch_1_or_an_unknown_one(batch: int, check: str) -> None:
    g = GraphOf("NHWC")
    objection = public(g.build(g.avg_pool(g.input(batch, 8, 8, 3), name="p")), "p")
    assert (objection.check if objection else "") == check


def test_global_pools_of_the_maximum_have_any_batch_and_of_the_average_one() -> None:
    g = GraphOf("NHWC")
    x = g.input(16, 8, 8, 3)
    graph = g.build(g.op("global_max_pool2d", x, name="m", layout="NHWC"), g.global_avg_pool(x, name="a"))
    assert public(graph, "m") is None
    assert check_of(public(graph, "a")) == "global_avg_pool2d.batch"


def test_a_global_pool_of_the_maximum_in_channels_first_goes_beyond() -> None:
    g = GraphOf("NCHW")
    graph = g.build(g.op("global_max_pool2d", g.input(1, 3, 8, 8), name="m", layout="NCHW"))
    objection = public(graph, "m")
    assert objection is not None
    assert objection.check == "global_max_pool2d.layout"
    assert "beyond" in objection.hint
    (kernel,) = match_composites(graph).kernels
    assert kernel.composite == "mrvl.globalmaxpool2d_nhwc2nhwc"
    assert "NCHW" in kernel.beyond_public[0]


@pytest.mark.parametrize(
    ("left", "right", "check"),
    [
        ((1, 4, 4, 8), (1, 4, 4, 8), ""),
        ((8, 4, 8), (8,), ""),
        ((1, 1, 8), (1, 4, 4, 8), ""),
        ((1, 8), (1, 8), "add.rank"),
        ((8,), (1, 4, 4, 8), "add.rank"),
        ((9, 4, 8), (9, 4, 8), "add.batch"),
        ((1, 4, 4, 8), (2, 1, 4, 4, 8), "add.rank"),
        ((1, 2, 4, 4, 8), (1,), "add.rank"),
    ],
)
def test_a_sum_is_judged_by_its_left_operand(left: tuple[int, ...], right: tuple[int, ...], check: str) -> None:
    g = GraphOf("NHWC")
    objection = public(g.build(g.op("add", g.input(*left), g.input(*right, name="y"), name="s")), "s")
    assert (objection.check if objection else "") == check


def test_a_sum_of_a_convolution_on_the_host_stays_there() -> None:
    g = GraphOf("NHWC")
    conv = g.conv(g.input(1, 6, 6, 8), 8, groups=2, name="c")
    graph = g.build(g.op("add", conv, g.input(1, 4, 4, 8, name="y"), name="s"))
    assert check_of(public(graph, "s")) == "add.left"
    (one, other) = match_composites(graph).kernels
    assert (one.operator, other.operator) == ("conv2d", "add")
    assert "groups" in one.beyond_public[0]


@pytest.mark.parametrize(
    ("shape", "count", "axis", "check"),
    [
        ((1, 4, 4, 8), 3, 3, ""),
        ((1, 4, 4, 8), 1, 3, "concatenate.fields"),
        ((1, 4, 4, 8), 2, -1, "concatenate.axis"),
        ((1, 4, 4, 8), 2, 1, "concatenate.axis"),
        ((2, 4, 4, 8), 2, 3, "concatenate.batch"),
        ((1, 8), 2, 1, "concatenate.rank"),
    ],
)
def test_a_concatenation_has_two_fields_of_batch_1_along_the_channels(
    shape: tuple[int, ...], count: int, axis: int, check: str
) -> None:
    g = GraphOf("NHWC")
    fields = [g.input(*shape, name=f"x{number}") for number in range(count)]
    graph = g.build(g.concat(*fields, axis=axis, name="c"))
    objection = public(graph, "c")
    assert (objection.check if objection else "") == check
    (kernel,) = match_composites(graph).kernels
    assert bool(kernel.beyond_public) == bool(check)


@pytest.mark.parametrize(
    ("given", "made", "check"),
    [
        ((1, 4, 4, 8), (1, 128), ""),
        ((1, 128), (2, 4, 4, 4), ""),
        ((1, 4, 32), (1, 128), "reshape.rank"),
        ((1, 128), (4, 4, 8), "reshape.rank"),
        ((1, 128), (1, 2, 4, 4, 4), "reshape.rank"),
    ],
)
def test_a_reshape_has_rank_2_or_4_on_both_sides(given: tuple[int, ...], made: tuple[int, ...], check: str) -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.reshape(g.input(*given), *made, name="r"))
    objection = public(graph, "r")
    assert (objection.check if objection else "") == check
    assert bool(match_composites(graph).kernels) == (len(made) <= 4)


def test_flattening_of_rank_3_is_refused_and_squeezing_is_not() -> None:
    g = GraphOf("NHWC")
    squeezed = g.squeeze(g.input(1, 1, 4, 8), 1, name="s")
    graph = g.build(g.flatten(squeezed, name="f"))
    assert public(graph, "s") is None
    assert check_of(public(graph, "f")) == "batch_flatten.rank"


def test_layouts_are_transformed_to_channels_last_only() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 4, 4, 8)
    there = g.op("layout_transform", x, name="t", src_layout="NCHW", dst_layout="NHWC")
    back = g.op("layout_transform", x, name="b", src_layout="NHWC", dst_layout="NCHW")
    graph = g.build(there, back)
    assert public(graph, "t") is None
    assert check_of(public(graph, "b")) == "layout_transform.layouts"
    assert [bool(kernel.beyond_public) for kernel in match_composites(graph).kernels] == [False, True]


def test_8_bit_values_need_a_scale_and_weights_one_or_one_for_each_channel() -> None:
    def graph(given: tuple[float, ...], weights: tuple[float, ...]) -> FlowGraph:
        g = GraphOf("NHWC", element_type=np.int8)
        x = g.builder.input("x", (1, 8), np.int8, given)
        weight = g.builder.constant("w", np.ones((4, 8), np.int8), weights)
        result = g.builder.values[x]._replace(shape=(1, 4), scales=(0.5,))
        return g.build(g.builder.add("dense", [x, weight], name="d", results=[result]))

    assert match_composites(graph((0.1,), (0.1, 0.2, 0.3, 0.4))).kernels
    assert match_composites(graph((0.1,), (0.1,))).kernels
    assert match_composites(graph((), (0.1,))).objections["d"].code == "QUANT"
    assert match_composites(graph((0.1,), (0.1, 0.2))).objections["d"].code == "QUANT"
    assert public(graph((0.1,), (0.1,)), "d") is not None
