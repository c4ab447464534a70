"""The scales of int8 values."""

from __future__ import annotations

import pytest

from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.layers.reading import read_layers
from nnhal_mlip.compiler.numbers.scales import int8_scales, scale_of
from tests.support.flow_graphs import GraphOf
from tests.support.mlip_compiling import GraphInFiles


def _files() -> GraphInFiles:
    g = GraphOf("NHWC")
    pooled = g.max_pool(g.conv(g.input(1, 8, 8, 4), 6, 3, name="conv"), 2, name="pool")
    return GraphInFiles(g.build(g.flatten(pooled, name="flat")))


def test_ranges_are_found_by_the_value_or_by_the_kernel() -> None:
    network = read_layers(_files().files[0])
    by_value = int8_scales(network, {"x": (-1, 1), "conv": (-2, 3)})
    kernel = next(note.name for note in network.kernels if note.kind == "Conv2D")
    assert int8_scales(network, {"x": (-1, 1), kernel: (-2, 3)}) == by_value
    assert by_value["conv"] == scale_of(-2, 3) == 3 / 127


def test_what_only_moves_has_the_scale_of_what_it_was() -> None:
    scales = int8_scales(read_layers(_files().files[0]), {"x": (-1, 1), "conv": (-2, 3)})
    assert scales["flat"] == scales["pool"] == scales["conv"]


def test_a_result_without_a_range_is_refused_by_name() -> None:
    with pytest.raises(MlipCompileError, match="conv: its result conv has no range"):
        int8_scales(read_layers(_files().files[0]), {"x": (-1, 1)})


def test_nothing_but_zeros_has_a_scale() -> None:
    assert scale_of(0.0, 0.0) == 1.0


def test_parts_of_a_concatenation_are_computed_in_its_scale() -> None:
    g = GraphOf("NHWC")
    data = g.input(1, 8, 8, 4)
    joined = g.concat(g.conv(data, 6, 3, name="a"), g.conv(data, 5, 3, name="b"), name="both")
    given = GraphInFiles(g.build(joined))
    scales = int8_scales(read_layers(given.files[0]), {"x": (-1, 1), "a": (-1, 1), "b": (-2, 2)})
    assert scales["a"] == scales["b"] == scales["both"] == scale_of(-2, 2)
    compiled = given.compile(quantize="int8")
    assert [layer.stripes for layer in compiled.program.layers if layer.kind == "Concat"] == [0]
