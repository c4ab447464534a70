"""Networks from the float graph to a simulated run: every layer, and what the whole binaries return.

Tolerances are largest differences, relative to the largest number of what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.program.program import OCM_BYTES
from tests.support.flow_graphs import GraphOf, random_inputs
from tests.support.flow_networks import inception_block, mlp, mobilenet_v1, resnet18, resnet50, ssd_head
from tests.support.mlip_runs import (
    SMALL_OCM,
    RunOfSteps,
    computed_alone,
    distance,
    layer_by_layer,
    layers,
    ranges_of,
    run_steps,
)

_INT8, _INT32 = np.dtype(np.int8), np.dtype(np.int32)
_LARGEST = 127
_MOVING = (
    Operator.MAX_POOL2D,
    Operator.RESHAPE,
    Operator.BATCH_FLATTEN,
    Operator.SQUEEZE,
    Operator.TRANSPOSE,
    Operator.LAYOUT_TRANSFORM,
)
"""Operators whose results have the scale of their data."""

Ranges = Mapping[str, tuple[float, float]]


def folded(graph: FlowGraph) -> FlowGraph:
    """Return a graph with each normalisation behind a convolution as other weights and a bias."""
    normalised = {node.inputs[0]: node for node in graph.nodes if node.operator == Operator.BATCH_NORM}
    constants, values, nodes = dict(graph.constants), dict(graph.values), list[FlowNode]()
    for node in graph.nodes:
        if node.operator == Operator.CONV2D and node.output in normalised:
            gamma, _, _, variance = (graph.constants[name] for name in normalised[node.output].inputs[1:])
            gain = gamma / np.sqrt(variance + normalised[node.output].real("epsilon"))
            weight = node.inputs[1]
            outputs_first = gain.reshape(-1, 1, 1, 1)
            constants[weight] = (graph.constants[weight] * outputs_first).astype(np.float32)
        if node.operator == Operator.BATCH_NORM:
            gamma, beta, mean, variance = (graph.constants[name] for name in node.inputs[1:])
            bias = f"{node.output}_bias"
            constants[bias] = (beta - mean * gamma / np.sqrt(variance + node.real("epsilon"))).astype(np.float32)
            values[bias] = FlowValue(constants[bias].shape, constants[bias].dtype)
            node = replace(
                node,
                operator=Operator.BIAS_ADD,
                inputs=(node.inputs[0], bias),
                attributes={"axis": node.integer("axis")},
            )
        nodes.append(node)
    return FlowGraph(tuple(nodes), graph.inputs, graph.outputs, values, constants)


def quantised(graph: FlowGraph, ranges: Ranges) -> FlowGraph:
    """Return a graph of 8-bit values whose scales come from ranges, by the values' names.

    Values between a layer and its bias or activation have the scale of the layer's result, as those have that a fused
    operation of the HAL becomes. Weights must have their outputs first.
    """
    graph = folded(graph)
    scales = _scales(graph, ranges)
    builder = FlowGraphBuilder()
    names: dict[str, str] = {}
    for name in graph.inputs:
        names[name] = builder.input(name, graph.shape(name), _INT8, (scales[name],))
    for node in graph.nodes:
        data = node.inputs[0]
        for position, name in enumerate(node.inputs):
            if name in graph.constants and name not in names:
                array = graph.constants[name]
                if node.operator == Operator.BIAS_ADD:
                    producer = graph.producers()[data]
                    units = np.array(builder.values[names[producer.inputs[1]]].scales) * scales[producer.inputs[0]]
                    numbers = np.rint(array / units).astype(_INT32)
                    names[name] = builder.constant(name, numbers, tuple(units.tolist()))
                elif position == 1 and node.operator in (Operator.CONV2D, Operator.DENSE):
                    units = np.abs(array).reshape(len(array), -1).max(axis=1) / _LARGEST
                    numbers = np.rint(array / units.reshape(-1, *[1] * (array.ndim - 1))).astype(_INT8)
                    names[name] = builder.constant(name, numbers, tuple(units.astype(np.float32).tolist()))
                else:
                    unit = float(np.abs(array).max()) / _LARGEST
                    names[name] = builder.constant(name, np.rint(array / unit).astype(_INT8), (unit,))
        result = FlowValue(graph.shape(node.output), _INT8, (scales[node.output],))
        names[node.output] = builder.add(
            node.operator,
            [names[name] for name in node.inputs],
            node.attributes,
            node.sources,
            node.output,
            results=[result],
        )
    return builder.build({user: names[value] for user, value in graph.outputs.items()})


def to_int8(values: Array, scale: float) -> Array:
    """Return real numbers as 8-bit numbers of a scale; halves go away from zero."""
    steps = values.astype(np.float64) / scale
    return np.clip(np.trunc(steps + np.copysign(0.5, steps)), -_LARGEST - 1, _LARGEST).astype(np.int8)


def _scales(graph: FlowGraph, ranges: Ranges) -> dict[str, float]:
    found = {name: _scale(ranges, name) for name in graph.inputs}
    consumers = graph.consumers()
    for node in graph.nodes:
        last = node
        while last.operator in (Operator.CONV2D, Operator.DENSE, Operator.BIAS_ADD, Operator.ADD):
            users = consumers.get(last.output, [])
            if len(users) != 1 or users[0].operator not in (Operator.BIAS_ADD, Operator.RELU, Operator.CLIP):
                break
            last = users[0]
        moves = node.operator in _MOVING
        found[node.output] = found[node.inputs[0]] if moves else _scale(ranges, last.output)
    return found


def _scale(ranges: Ranges, name: str) -> float:
    low, high = ranges[name]
    return float(np.float32(max(abs(low), abs(high)) / _LARGEST))


FP16_LAYER = 2**-10
"""A layer in fp16 on the same inputs: its weights and its result are rounded once each."""
FP16_NETWORK = 2**-8
"""Any value of a network in fp16."""
INT8_LAYER = 2**-4
"""A layer in int8 with calibrated ranges on the same inputs."""
INT8_NETWORK = 2**-3


def two_inputs() -> FlowGraph:
    """Two images, one of them NHWC after a transposition, that are summed and concatenated."""
    g = GraphOf(seed=3)
    one = g.relu(g.bias(g.conv(g.input(1, 4, 16, 16, name="left"), 8, pad=1)))
    other = g.relu(g.conv(g.transpose(g.input(1, 16, 16, 4, name="right"), 0, 3, 1, 2), 8, pad=1))
    joined = g.concat(g.op("add", one, other), other)
    return g.build(g.conv(joined, 6, 1, name="mixed"), g.flatten(g.global_avg_pool(joined), name="means"))


def host_between() -> FlowGraph:
    """Three subgraphs with operators of the host between them, one of which two subgraphs feed."""
    g = GraphOf(seed=4)
    x = g.input(1, 6, 16, 16)
    first = g.on_host(g.batch_norm(g.conv(x, 8, pad=1)))
    second = g.relu(g.bias(g.conv(first, 8, stride=2, pad=1)))
    gated = g.op("divide", second, g.softmax(second, 1))
    last = g.max_pool(g.relu(g.conv(gated, 8, pad=1)))
    return g.build(g.softmax(g.bias(g.dense(g.flatten(last), 10)), name="scores"))


def batch_of_three() -> FlowGraph:
    g = GraphOf(seed=5)
    data = g.relu(g.bias(g.conv(g.input(3, 5, 9, 11), 12, (3, 5), stride=(2, 1), pad=(1, 2, 1, 2))))
    data = g.avg_pool(data, 3, 2, 1, ceil_mode=False)
    return g.build(g.bias(g.dense(g.flatten(data), 7)))


NETWORKS: Mapping[str, Callable[[], FlowGraph]] = {
    "resnet18": lambda: resnet18(64),
    "mobilenet_v1": lambda: mobilenet_v1(48, width=0.25),
    "inception_block": inception_block,
    "inception_block_nhwc": lambda: inception_block(16, 7, width=24, layout="NHWC"),
    "ssd_head": ssd_head,
    "mlp": mlp,
    "mlp_of_a_batch": lambda: mlp(96, 40, inputs=48, batch=5),
    "two_inputs": two_inputs,
    "host_between": host_between,
    "batch_of_three": batch_of_three,
}


def largest_of_layers(found: FlowPartition, run: RunOfSteps, wanted: Mapping[str, Array] | None) -> float:
    """Return the largest distance of a layer: to the reference's value, or to what it makes of its own inputs."""
    return max(
        distance(
            run.values[layer.output],
            computed_alone(found.graph, layer, run.values) if wanted is None else wanted[layer.output],
        )
        for layer in layers(found)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_is_the_reference_in_fp16(name: str) -> None:
    graph = NETWORKS[name]()
    inputs = random_inputs(graph)
    found = layer_by_layer(partition(graph))
    run = run_steps(found, inputs)
    assert largest_of_layers(found, run, None) <= FP16_LAYER
    assert largest_of_layers(found, run, evaluate(found.graph, inputs)) <= FP16_NETWORK


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_is_the_reference_in_calibrated_int8(name: str) -> None:
    graph = NETWORKS[name]()
    found = layer_by_layer(partition(graph))
    inputs = random_inputs(graph)
    run = run_steps(found, inputs, quantize="int8", ranges=ranges_of(found.graph, inputs, random_inputs(graph, 1)))
    assert largest_of_layers(found, run, None) <= INT8_LAYER
    assert largest_of_layers(found, run, evaluate(found.graph, inputs)) <= INT8_NETWORK


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "host_between"])
@pytest.mark.parametrize(("tiles", "ocm"), [(8, OCM_BYTES), (2, SMALL_OCM)])
def test_layers_of_8_bit_graphs_are_the_integers_that_they_should_be(name: str, tiles: int, ocm: int) -> None:
    real = NETWORKS[name]()
    inputs = random_inputs(real)
    graph = quantised(real, ranges_of(real, inputs))
    found = layer_by_layer(partition(graph))
    given = {name: to_int8(values, graph.values[name].scales[0]) for name, values in inputs.items()}
    run = run_steps(found, given, quantize="int8", num_tiles=tiles, ocm_size=ocm)
    for layer in layers(found):
        scale = found.graph.values[layer.output].scales[0]
        wanted = to_int8(computed_alone(found.graph, layer, run.values), scale).astype(np.int32)
        differences = np.abs(run.raw[layer.output] - wanted)
        assert differences.max() <= 1, layer.user_names
        # Only what lies on a half may go the other way.
        assert differences.mean() < 0.002, layer.user_names


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "resnet18"])
@pytest.mark.parametrize("quantize", ["fp16", "int8"])
def test_whole_networks_are_the_reference_on_any_number_of_tiles(name: str, quantize: str) -> None:
    graph = NETWORKS[name]()
    found = partition(graph)
    inputs = random_inputs(graph)
    ranges = ranges_of(found.graph, inputs)
    many = (1, 8) if quantize == "fp16" else (1, 2, 4, 8)
    runs = [run_steps(found, inputs, quantize=quantize, num_tiles=tiles, ranges=ranges) for tiles in many]
    runs.append(run_steps(found, inputs, quantize=quantize, ranges=ranges, wb_pin_ocm=True))
    for run in runs:
        assert_outputs(found, run, inputs, FP16_NETWORK if quantize == "fp16" else INT8_NETWORK)
        if quantize == "int8":
            assert all(np.array_equal(run.raw[value], runs[0].raw[value]) for value in run.raw)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tiles", "ocm"),
    [("resnet18", 2, SMALL_OCM), ("ssd_head", 1, SMALL_OCM // 4), ("inception_block", 1, SMALL_OCM // 4)],
)
@pytest.mark.parametrize("quantize", ["fp16", "int8"])
def test_networks_run_in_little_memory_by_stripes_and_spills(name: str, tiles: int, ocm: int, quantize: str) -> None:
    graph = NETWORKS[name]()
    found = partition(graph)
    inputs = random_inputs(graph)
    run = run_steps(
        found, inputs, quantize=quantize, num_tiles=tiles, ocm_size=ocm, ranges=ranges_of(found.graph, inputs)
    )
    assert_outputs(found, run, inputs, FP16_NETWORK if quantize == "fp16" else INT8_NETWORK)
    records = [record for compiled in run.compiled.values() for record in compiled.program.layers]
    assert max(record.stripes for record in records) > 1
    if quantize == "fp16":
        assert any(record.spills for record in records)


@pytest.mark.slow
def test_resnet50_is_the_reference_in_int8() -> None:
    graph = resnet50(32)
    found = partition(graph)
    inputs = random_inputs(graph)
    run = run_steps(found, inputs, quantize="int8", ranges=ranges_of(found.graph, inputs))
    assert len(found.subgraphs) == 1
    assert not found.host
    assert_outputs(found, run, inputs, INT8_NETWORK)


@pytest.mark.slow
def test_resnet50_of_large_images_is_the_reference_layer_by_layer() -> None:
    graph = resnet50(128)
    found = layer_by_layer(partition(graph))
    inputs = random_inputs(graph)
    run = run_steps(found, inputs)
    assert sum(layer.stripes > 1 for compiled in run.compiled.values() for layer in compiled.program.layers) > 20
    assert largest_of_layers(found, run, None) <= FP16_LAYER
    assert largest_of_layers(found, run, evaluate(found.graph, inputs)) <= FP16_NETWORK


@pytest.mark.slow
def test_binaries_compute_what_their_layers_do_one_by_one() -> None:
    """In int8, in which the order of sums does not matter."""
    graph = mobilenet_v1(48, width=0.25)
    found = partition(graph)
    inputs = random_inputs(graph)
    options = {"quantize": "int8", "ranges": ranges_of(found.graph, inputs)}
    whole, parts = run_steps(found, inputs, **options), run_steps(layer_by_layer(found), inputs, **options)
    for value in whole.raw:
        np.testing.assert_array_equal(whole.raw[value], parts.raw[value])


def test_networks_with_host_operators_between_run_as_several_binaries() -> None:
    found = partition(host_between())
    assert len(found.subgraphs) == 3
    assert sorted(node.operator for node in found.host) == ["divide", "onnx.Softmax", "softmax"]


def test_relu6_is_beyond_the_public_flow() -> None:
    graph = mobilenet_v1(32, width=0.25)
    public = partition(graph, FlowOptions(beyond_public=False))
    assert sum(node.operator == "clip" for node in public.host) == 27
    assert [node.operator for node in partition(graph).host] == ["softmax"]
    inputs = random_inputs(graph)
    assert_outputs(public, run_steps(public, inputs), inputs, FP16_NETWORK)


def assert_outputs(found: FlowPartition, run: RunOfSteps, inputs: Mapping[str, Array], tolerance: float) -> None:
    wanted = evaluate(found.graph, inputs)
    for name in found.graph.outputs.values():
        assert distance(run.values[name], wanted[name]) <= tolerance, name
