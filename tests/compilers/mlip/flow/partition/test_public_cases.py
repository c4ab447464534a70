"""Outcomes that were derived by hand from the rules of the public flow."""

from __future__ import annotations

from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from tests.support.flow_graphs import GraphOf
from tests.support.flow_outcomes import SubgraphOutcome, host_operators, publicly, subgraph_outcomes

LT = "layout_transform"
CONV = (LT, "Conv2D")


def check(graph: FlowGraph, subgraphs: list[SubgraphOutcome], host: list[str]) -> None:
    found = publicly(graph)
    assert subgraph_outcomes(found) == subgraphs
    assert host_operators(found) == sorted(host)


def test_two_heads_of_a_perceptron_are_one_subgraph_with_two_outputs() -> None:
    g = GraphOf()
    x = g.input(1, 64)
    check(g.build(g.dense(x, 10), g.dense(x, 4)), [SubgraphOutcome(("FC", "FC"), 1, 2)], [])


def test_two_convolutions_on_two_inputs_are_summed() -> None:
    g = GraphOf()
    one, two = g.conv(g.input(1, 4, 8, 8), 8), g.conv(g.input(1, 4, 8, 8, name="y"), 8)
    check(g.build(g.op("add", one, two)), [SubgraphOutcome((*CONV, *CONV, "Sum2D"), 2)], [LT])


def test_a_sum_with_an_input_of_the_graph_on_the_left_stays_on_the_host() -> None:
    g = GraphOf()
    x = g.input(1, 8, 8, 8)
    graph = g.build(g.op("add", x, g.conv(x, 8, pad=1)))
    check(graph, [SubgraphOutcome(CONV)], [LT, "add"])
    assert "add" in [kernel.operator for kernel in partition(graph).subgraphs[0].kernels]
    assert partition(graph).host == ()


def test_a_sum_with_an_input_of_the_graph_on_the_right_does_not() -> None:
    g = GraphOf()
    x = g.input(1, 8, 8, 8)
    check(g.build(g.op("add", g.conv(x, 8, pad=1), x)), [SubgraphOutcome((*CONV, "Sum2D"))], [LT])


def test_an_average_pool_of_two_images_stays_in_its_layout_on_the_host() -> None:
    g = GraphOf()
    graph = g.build(g.avg_pool(g.conv(g.input(2, 4, 8, 8), 8, pad=1)))
    check(graph, [SubgraphOutcome(CONV)], [LT, "avg_pool2d"])


def test_nine_images_are_too_many() -> None:
    g = GraphOf()
    check(g.build(g.max_pool(g.relu(g.conv(g.input(9, 4, 8, 8), 8)))), [], ["conv2d", "max_pool2d", "relu"])


def test_a_concatenation_of_rows_stays_on_the_host() -> None:
    g = GraphOf()
    x = g.input(1, 4, 8, 8)
    graph = g.build(g.concat(g.conv(x, 8), g.conv(x, 8), axis=2))
    check(graph, [SubgraphOutcome((*CONV, "Conv2D"), 1, 2)], [LT, "concatenate"])


def test_a_leaky_relu_stays_on_the_host_in_channels_last() -> None:
    g = GraphOf()
    value = g.op("leaky_relu", g.conv(g.input(1, 4, 8, 8), 8), alpha=0.1)
    graph = g.build(g.conv(value, 8))
    check(graph, [SubgraphOutcome(CONV), SubgraphOutcome(("Conv2D",))], [LT, "leaky_relu"])


def test_a_pad_with_ones_stays_on_the_host_and_the_convolution_goes_alone() -> None:
    g = GraphOf()
    padded = g.pad(g.relu(g.conv(g.input(1, 4, 8, 8), 8)), 1, value=1.0)
    graph = g.build(g.conv(padded, 8))
    check(graph, [SubgraphOutcome(CONV), SubgraphOutcome(("Conv2D",))], [LT, "pad"])


def test_a_pad_with_zeros_is_part_of_a_pool() -> None:
    g = GraphOf()
    graph = g.build(g.max_pool(g.pad(g.relu(g.conv(g.input(1, 4, 8, 8), 8)), (0, 0, 1, 1)), 3))
    check(graph, [SubgraphOutcome((*CONV, "Maxpool2D"))], [LT])


def test_weights_that_are_fed_stay_on_the_host() -> None:
    g = GraphOf()
    conv = g.conv(g.input(1, 4, 8, 8), 8, weight=g.input(8, 4, 3, 3, name="w"))
    graph = g.build(conv)
    check(graph, [], ["conv2d"])
    (objection,) = publicly(graph).objections.values()
    assert objection.got == "weights w that are not constant"
    g = GraphOf()
    check(g.build(g.dense(g.input(1, 4), 8, weight=g.input(8, 4, name="w"))), [], ["dense"])


def test_a_sum_of_rank_2_stays_on_the_host_and_of_rank_3_does_not() -> None:
    g = GraphOf()
    graph = g.build(g.op("add", g.dense(g.input(1, 16), 8), g.input(1, 8, name="y")))
    check(graph, [SubgraphOutcome(("FC",))], ["add"])
    g = GraphOf()
    graph = g.build(g.relu(g.op("add", g.dense(g.input(1, 5, 16), 8), g.input(1, 5, 8, name="y"))))
    check(graph, [SubgraphOutcome(("FC", "Sum2D"), 2)], [])


def test_a_subgraph_with_an_input_into_a_concatenation_goes_back() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.concat(g.conv(g.input(1, 8, 8, 4), 8, pad=1), g.input(1, 8, 8, 4, name="y")))
    found = publicly(graph)
    assert subgraph_outcomes(found) == []
    assert host_operators(found) == ["concatenate", "conv2d"]
    (reversion,) = found.reversions
    assert "concatenation" in reversion.reason
    assert {objection.code for objection in found.objections.values()} == {"REVERTED"}


def test_a_global_pool_of_the_maximum_keeps_channels_first_on_the_host() -> None:
    g = GraphOf()
    pooled = g.op("global_max_pool2d", g.conv(g.input(1, 4, 8, 8), 8), layout="NCHW")
    graph = g.build(g.dense(g.flatten(pooled), 5))
    flat = SubgraphOutcome(("nn.batch_flatten", "FC"))
    check(graph, [SubgraphOutcome(CONV), flat], [LT, "global_max_pool2d"])


def test_dropout_vanishes() -> None:
    g = GraphOf()
    graph = g.build(g.dense(g.op("dropout", g.dense(g.input(1, 16), 8)), 4))
    check(graph, [SubgraphOutcome(("FC", "FC"))], [])


def test_a_convolution_with_two_users_keeps_its_activations_on_the_host() -> None:
    g = GraphOf()
    conv = g.conv(g.input(1, 4, 8, 8), 8)
    graph = g.build(g.relu(conv), g.op("sigmoid", conv))
    check(graph, [SubgraphOutcome(CONV)], [LT, LT, "relu", "sigmoid"])


def test_a_sum_behind_the_host_goes_back_unless_a_convolution_follows() -> None:
    def graph(*, followed: bool) -> FlowGraph:
        g = GraphOf()
        one = g.conv(g.input(1, 4, 8, 8), 8)
        total = g.op("add", g.conv(one, 8, pad=1), g.op("sigmoid", one))
        return g.build(g.conv(total, 8) if followed else total)

    before = SubgraphOutcome((*CONV, "Conv2D"), 1, 2)
    check(graph(followed=False), [before], [LT, "add", "sigmoid"])
    check(graph(followed=True), [before, SubgraphOutcome(("Sum2D", "Conv2D"), 2)], [LT, "sigmoid"])


def test_a_flattening_that_two_dense_layers_share_is_a_layer_behind_a_transform_of_the_host() -> None:
    g = GraphOf()
    flat = g.flatten(g.conv(g.input(1, 4, 8, 8), 8))
    graph = g.build(g.softmax(g.dense(flat, 5)), g.dense(flat, 3))
    check(
        graph,
        [SubgraphOutcome(CONV), SubgraphOutcome(("nn.batch_flatten", "FC", "FC"), 1, 2)],
        [LT, "softmax"],
    )


def test_a_second_normalisation_stays_on_the_host() -> None:
    g = GraphOf()
    graph = g.build(g.batch_norm(g.batch_norm(g.conv(g.input(1, 4, 8, 8), 8))))
    check(graph, [SubgraphOutcome(CONV)], [LT, "batch_norm"])


def test_two_channels_from_each_stay_on_the_host() -> None:
    g = GraphOf()
    check(g.build(g.conv(g.input(1, 4, 8, 8), 8, groups=4)), [], ["conv2d"])


def test_a_transposition_to_channels_last_and_the_transform_before_it_vanish() -> None:
    g = GraphOf()
    graph = g.build(g.transpose(g.conv(g.input(1, 4, 8, 8), 8), 0, 2, 3, 1))
    check(graph, [SubgraphOutcome(CONV)], [])


def test_a_transposition_to_channels_first_and_the_transform_behind_it_vanish() -> None:
    g = GraphOf()
    graph = g.build(g.conv(g.transpose(g.input(1, 8, 8, 4), 0, 3, 1, 2), 8))
    check(graph, [SubgraphOutcome(("Conv2D",))], [LT])


def test_channels_last_with_any_order_of_the_weights_has_no_transforms() -> None:
    for kernel_layout in ("HWIO", "OHWI"):
        g = GraphOf("NHWC")
        value = g.max_pool(g.relu(g.conv(g.input(1, 8, 8, 4), 6, (3, 2), kernel_layout=kernel_layout)))
        check(g.build(value), [SubgraphOutcome(("Conv2D", "Maxpool2D"))], [])


def test_a_global_pool_and_a_flattening_go_into_the_dense_layer() -> None:
    g = GraphOf()
    value = g.global_avg_pool(g.conv(g.input(1, 4, 8, 8), 8))
    graph = g.build(g.bias(g.dense(g.flatten(value), 5)))
    check(graph, [SubgraphOutcome((*CONV, "GlobalAvgpool2D", "FC"))], [])


def test_one_number_for_all_channels_is_a_bias() -> None:
    g = GraphOf()
    conv = g.relu(g.op("add", g.conv(g.input(1, 4, 8, 8), 8), g.random_constant()))
    check(g.build(conv), [SubgraphOutcome(CONV)], [LT])
    g = GraphOf()
    check(g.build(g.op("add", g.dense(g.input(1, 16), 8), g.random_constant(1, 1))), [SubgraphOutcome(("FC",))], [])
