from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal.operations.operand_types import F16, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal_mlip.costs import operation_ns, worth_by_cost
from nnhal_mlip.flow.flow_partition import FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.options import MlipOptions, read_options
from nnhal_mlip.timing.profile import read_profile
from tests.support.flow_graphs import GraphOf
from tests.support.mlip_hal import EACH_EXAMPLE, MlipRecipe, mlip_examples
from tests.support.npu import SAME


def network(code: OperandType, side: int = 32, channels: int = 64) -> ResolvedModel:
    """A convolution of 3 x 3, a RELU and a RESHAPE."""
    recipe = MlipRecipe(code)
    inputs = [recipe.tensor((1, side, side, channels)), recipe.weights((channels, 3, 3, channels))]
    inputs += [recipe.bias(channels), *recipe.integers(SAME, 1, 1, 0)]
    convolved = recipe.operation(OperationType.CONV_2D, inputs, recipe.like())
    clamped = recipe.operation(OperationType.RELU, [convolved], recipe.like())
    shape = recipe.constant(OperandType.TENSOR_INT32, [1, side * side * channels])
    return recipe.finish(recipe.operation(OperationType.RESHAPE, [clamped, shape], recipe.like()))


@pytest.mark.parametrize(("code", "name"), EACH_EXAMPLE)
def test_every_operation_costs_something(code: OperandType, name: str) -> None:
    assert min(operation_ns(mlip_examples(code)[name], read_options({}))) >= 1


def test_a_layer_is_priced_at_its_first_operation() -> None:
    convolved, clamped, reshaped = operation_ns(network(F16), read_options({"tiles": "1"}))
    assert convolved > 32 * 32 * 64 * 3 * 3 * 64 / 256  # products, 256 in a cycle of a nanosecond
    assert clamped == 1
    assert reshaped > 1


def test_more_tiles_and_fewer_bits_take_less_time() -> None:
    times = [sum(operation_ns(network(F16), read_options({"tiles": tiles}))) for tiles in ("1", "2", "4", "8")]
    assert times == sorted(times, reverse=True)
    assert times[0] > 2 * times[3]
    assert sum(operation_ns(network(Q8AS), read_options({}))) < times[3]


def test_pinned_weights_need_no_transfer() -> None:
    model = network(F16, side=4, channels=256)
    pinned, loaded = (operation_ns(model, read_options({"wb_pin_ocm": pin}))[0] for pin in ("1", "0"))
    assert loaded > 256 * 3 * 3 * 256 * 2 / 32 > pinned


def test_operations_that_are_not_supported_do_not_matter() -> None:
    recipe = MlipRecipe(F16)
    bent = recipe.operation(OperationType.L2_NORMALIZATION, [recipe.tensor((1, 16, 16, 64))], recipe.like())
    clamped = recipe.operation(OperationType.RELU, [bent], recipe.like())
    costs = operation_ns(recipe.finish(clamped), read_options({}))
    assert costs[0] == 1 < costs[1]


OPTIONS = MlipOptions(read_profile())


def parted(graph: FlowGraph, options: MlipOptions = OPTIONS) -> FlowPartition:
    return partition(graph, worth=worth_by_cost(options))


def pool(channels: int, side: int) -> FlowGraph:
    g = GraphOf()
    return g.build(g.max_pool(g.input(1, channels, side, side), 3, 1, 1))


def dense(units: int) -> FlowGraph:
    g = GraphOf()
    return g.build(g.dense(g.input(1, 64), units))


def test_a_small_pool_goes_back_to_the_host_and_both_times_are_told() -> None:
    found = parted(pool(4, 8))
    assert not found.subgraphs
    (reversion,) = found.reversions
    assert reversion.reason.startswith("modelled, it takes ")
    assert "5.0 µs of them to start it" in reversion.reason
    assert [objection.code for objection in found.objections.values()] == ["REVERTED"]


def test_a_pool_stays_if_the_host_is_slower() -> None:
    slow = MlipOptions(replace(read_profile(), host_operator_ns=1_000_000))
    assert len(parted(pool(4, 8), slow).subgraphs) == 1


def test_a_dense_layer_stays_whatever_it_costs() -> None:
    assert len(parted(dense(10)).subgraphs) == 1
