from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.patterns.matching import match_composites
from tests.support.flow_graphs import GraphOf
from tests.support.mlip_compiling import check_graph


def code_and_check(pool: str, g: GraphOf) -> tuple[str, str]:
    objection = match_composites(g.build(pool), beyond_public=True).objections.get("p")
    return (objection.code, objection.check) if objection else ("", "")


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_window_that_sees_only_padding_is_refused_unless_an_average_counts_it(layout: str) -> None:
    g = GraphOf(layout)
    image = g.input(1, 4, 4, 4)
    refused = ("SHAPE", "avg_pool2d.window")
    assert code_and_check(g.avg_pool(image, 2, 2, (0, 3, 0, 0), name="p"), g) == refused
    g = GraphOf(layout)
    pool = g.avg_pool(g.input(1, 4, 4, 4), 2, 2, (0, 3, 0, 0), count_include_pad=True, name="p")
    assert code_and_check(pool, g) == ("", "")


def test_a_window_of_a_maximum_that_ceil_mode_puts_behind_the_data_is_refused() -> None:
    g = GraphOf("NHWC")
    pool = g.max_pool(g.input(1, 5, 5, 4), 1, 3, ceil_mode=True, name="p")
    assert code_and_check(pool, g) == ("SHAPE", "max_pool2d.window")


def random_pool(seed: int) -> FlowGraph:
    """One in three after a pad, one in three with ceil_mode."""
    random = np.random.default_rng(seed)

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    g = GraphOf("NHWC", seed)
    data = g.input(draw(1, 3), draw(1, 9), draw(1, 9), draw(1, 5))
    if draw(0, 2) == 0:
        data = g.pad(data, (draw(0, 3), draw(0, 3), draw(0, 3), draw(0, 3)))
    _, height, width, _ = g.shape(data)
    size, stride = (draw(1, min(4, height)), draw(1, min(4, width))), (draw(1, 4), draw(1, 4))
    sides, ceil_mode = (draw(0, 3), draw(0, 3), draw(0, 3), draw(0, 3)), draw(0, 2) == 0
    if draw(0, 1):
        return g.build(g.max_pool(data, size, stride, sides, ceil_mode=ceil_mode, name="p"))
    counted = draw(0, 1) == 0
    return g.build(g.avg_pool(data, size, stride, sides, ceil_mode=ceil_mode, count_include_pad=counted, name="p"))


@pytest.mark.slow
@pytest.mark.parametrize("quantize", ["fp16", "int8"])
def test_a_pool_that_is_taken_compiles_and_computes_what_the_graph_does(quantize: str) -> None:
    taken = 0
    for seed in range(100):
        graph = random_pool(seed)
        if "p" not in match_composites(graph, beyond_public=True).objections:
            check_graph(graph, quantize, num_tiles=1 << seed % 4)
            taken += 1
    assert taken > 30
