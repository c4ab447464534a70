"""Poolings that add up rows as they arrive: what they average is never whole in memory, and they agree with cpu_ref."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnhal.operations.operand_types import F32, I32, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperationType
from nnhal_cascade.compiler import CompilerOptions, compile_graph, frontier, least_memory
from nnhal_cascade.geometry.box import Interval
from nnhal_cascade.graph.bounds import memory_bound
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.feeds import InputPlace, with_inputs
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.graph.running_sums import Before, with_running_sums
from nnhal_cascade.hardware.memory_file import system_for
from tests.support.agreement import like
from tests.support.feeding import handed_over
from tests.support.npu import SAME, VALID
from tests.support.small_networks import Network, residual, two_convs

SYSTEM = system_for("u55-128")
ROWS, COLUMNS, DEPTH = 13, 4, 32
RELU6 = 3


class Pooled(Network):
    """A builder of networks that end with a pooling."""

    def features(self) -> int:
        """Two convolutions whose output is larger than the image."""
        first = self.conv(self.image, 2, DEPTH, scheme=SAME)
        return self.conv(self.depthwise(first, DEPTH), DEPTH, DEPTH, side=1)

    def pool(self, kind: OperationType, given: int, rows: int, scheme: int = VALID, activation: int = 0) -> int:
        parameters = self.recipe.integers(scheme, 1, 1, COLUMNS, rows, activation)
        return self.recipe.operation(kind, [given, *parameters], like(Q8AS))

    def mean(self, given: int, *axes: int, keep: int = 1) -> int:
        inputs = [given, self.recipe.constant(I32, axes), *self.recipe.integers(keep)]
        return self.recipe.operation(OperationType.MEAN, inputs, like(Q8AS))


def averaged() -> ResolvedModel:
    """A pooling with an activation of its own and a table behind it."""
    network = Pooled(ROWS, COLUMNS, 2)
    pooled = network.pool(OperationType.AVERAGE_POOL_2D, network.features(), ROWS, activation=RELU6)
    return network.recipe.build(
        network.recipe.operation(OperationType.LOGISTIC, [pooled], Operand(Q8AS, (), 1 / 256, -128))
    )


def mean() -> ResolvedModel:
    """A mean over rows and columns, which are dropped, and a product of it with a matrix."""
    network = Pooled(ROWS, COLUMNS, 2)
    pooled = network.reshape(network.mean(network.features(), 1, 2, keep=0), 1, 1, 1, DEPTH)
    return network.recipe.build(network.conv(pooled, DEPTH, 3, side=1))


def branched() -> ResolvedModel:
    """A mean behind a sum of two branches, one of which lags behind."""
    network = Pooled(ROWS, COLUMNS, 2)
    first = network.conv(network.image, 2, DEPTH, scheme=SAME)
    return network.recipe.build(network.mean(network.add(network.depthwise(first, DEPTH), first), 1, 2))


def iterative(model: ResolvedModel, place: InputPlace = InputPlace.RESIDENT) -> CascaderGraph:
    return with_inputs(with_running_sums(build_graph(model), model), place)


@pytest.mark.parametrize("place", InputPlace)
@pytest.mark.parametrize("build", [averaged, mean, branched])
def test_sums_take_less_memory_and_are_cpu_refs(build: Callable[[], ResolvedModel], place: InputPlace) -> None:
    model = build()
    graph = iterative(model, place)
    assert least_memory(graph, SYSTEM) < least_memory(with_inputs(build_graph(model), place), SYSTEM)
    for recompute in (False, True):
        for schedule in frontier(graph, SYSTEM, CompilerOptions(recompute=recompute)).points:
            assert schedule.peak >= memory_bound(schedule.graph, recompute).bytes
            handed_over(model, schedule)


def test_sums_of_rows_and_two_rows_of_sums_take_twelve_bytes_a_channel() -> None:
    """The planner's estimate is exact: what lies between the parts, and the output."""
    model = averaged()
    schedule = frontier(iterative(model, InputPlace.STREAMED), SYSTEM).points[-1]
    held = sorted(each.bytes for each in schedule.tensors if schedule.graph.tensors[each.tensor].element_bytes == 4)
    assert held == [4 * DEPTH, 8 * DEPTH]


def test_sums_may_be_spilled() -> None:
    model = averaged()
    handed_over(model, compile_graph(iterative(model), system_for("u65-256"), CompilerOptions(budget=1_700)))


def kept() -> list[ResolvedModel]:
    """Networks whose poolings do not average whole channels, or do so in floats."""
    network = Pooled(ROWS, COLUMNS, 2)
    networks = [network.recipe.build(network.pool(OperationType.MAX_POOL_2D, network.image, ROWS))]
    network = Pooled(ROWS, COLUMNS, 2)
    networks.append(network.recipe.build(network.pool(OperationType.AVERAGE_POOL_2D, network.image, 3, SAME)))
    network = Pooled(ROWS, COLUMNS, 2)
    networks.append(network.recipe.build(network.mean(network.image, 1)))
    network = Pooled(1, COLUMNS, 2)
    networks.append(network.recipe.build(network.mean(network.image, 1, 2)))
    network = Pooled(ROWS, COLUMNS, 2)
    real = network.recipe.operation(OperationType.DEQUANTIZE, [network.image], like(F32))
    real = network.recipe.operation(
        OperationType.MEAN, [real, network.recipe.constant(I32, (1, 2)), *network.recipe.integers(1)], like(F32)
    )
    networks.append(network.recipe.build(network.recipe.operation(OperationType.QUANTIZE, [real], like(Q8AS))))
    return [*networks, two_convs(), residual()]


@pytest.mark.parametrize("model", kept())
def test_other_parts_stay_as_they_are(model: ResolvedModel) -> None:
    assert iterative(model) == build_graph(model)


def test_a_stripe_needs_the_row_before_it() -> None:
    assert [Before().needs(Interval(*each)) for each in ((0, 5), (2, 4), (3, 3))] == [(0, 0), (1, 2), (0, 0)]
