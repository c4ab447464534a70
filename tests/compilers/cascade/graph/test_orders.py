"""Orders of parts: what they are, and that planning finds the same whichever the model has."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import I32, Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperationType
from nnhal_cascade.compiler import CompilerOptions, compile_graph, least_memory
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.graph.orders import orders
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.encoding import encoded_graph
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.ethos_u.driver import EthosU
from tests.support.agreement import random
from tests.support.models import Recipe, run_on
from tests.support.npu import SAME

SYSTEM = system_for("u55-128")
IMAGE = (1, 16, 16, 8)
QUANTIZATION = (0.5, 128)
DEPTHS = (32, 32, 8)


def convolved(recipe: Recipe, given: int, channels: int, made: int) -> int:
    weights = np.random.default_rng(made).integers(118, 138, (made, 3, 3, channels))
    inputs = [
        given,
        recipe.constant(Q8A, weights, 0.25, 128),
        recipe.constant(I32, np.zeros(made), 0.125),
        *recipe.integers(SAME, 1, 1, 0),
    ]
    return recipe.operation(OperationType.CONV_2D, inputs, Operand(Q8A, (), *QUANTIZATION))


def branches(breadth_first: bool, count: int = 6) -> ResolvedModel:
    """Equal branches of three convolutions, which are joined at the end."""
    recipe = Recipe()
    ends = [recipe.input(Q8A, IMAGE, *QUANTIZATION)] * count
    depths = (IMAGE[-1], *DEPTHS)
    steps = [(branch, level) for branch in range(count) for level in range(len(DEPTHS))]
    for branch, level in sorted(steps, key=lambda step: step[1]) if breadth_first else steps:
        ends[branch] = convolved(recipe, ends[branch], depths[level], depths[level + 1])
    joined = [*ends, *recipe.integers(3)]
    return recipe.build(recipe.operation(OperationType.CONCATENATION, joined, Operand(Q8A, (), *QUANTIZATION)))


def assert_can_run(graph: CascaderGraph) -> None:
    made: set[int] = {tensor.index for tensor in graph.tensors if tensor.is_input}
    for index, part in enumerate(graph.parts):
        assert part.index == index
        assert made >= {each.tensor for each in part.inputs}
        made.add(part.output)


def test_branches_run_one_after_the_other() -> None:
    given = build_graph(branches(breadth_first=True))
    first, second = orders(given)
    assert first is given
    assert_can_run(second)
    assert sorted(part.name for part in second.parts) == sorted(part.name for part in given.parts)
    follows = [second.producers[part.inputs[0].tensor] == part.index - 1 for part in second.parts[:-1]]
    assert follows == [False, True, True] * 6


def test_a_chain_has_one_order() -> None:
    recipe = Recipe()
    image = recipe.input(Q8A, IMAGE, *QUANTIZATION)
    graph = build_graph(recipe.build(convolved(recipe, convolved(recipe, image, 8, 8), 8, 8)))
    assert orders(graph) == (graph,)


def test_the_branch_that_needs_most_runs_first() -> None:
    recipe = Recipe()
    image = recipe.input(Q8A, IMAGE, *QUANTIZATION)
    small = convolved(recipe, image, 8, 8)
    large = convolved(recipe, convolved(recipe, image, 8, 64), 64, 8)
    added = recipe.operation(OperationType.ADD, [small, large, *recipe.integers(0)], Operand(Q8A, (), *QUANTIZATION))
    graph = build_graph(recipe.build(added))
    _, other = orders(graph)
    assert [graph.parts.index(part) for part in graph.parts] == [0, 1, 2, 3]
    assert [part.operations for part in other.parts] == [(1,), (2,), (0,), (3,)]


@pytest.mark.slow
def test_both_orders_of_a_model_give_the_same_schedules() -> None:
    wide, deep = (build_graph(branches(breadth_first)) for breadth_first in (True, False))
    assert least_memory(wide, SYSTEM) == least_memory(deep, SYSTEM)
    found = [compile_graph(graph, SYSTEM) for graph in (wide, deep)]
    assert found[0].cycles == found[1].cycles


@pytest.mark.parametrize("budget", [0, 1])
def test_another_order_is_right_also_from_a_cache(budget: int) -> None:
    model = branches(breadth_first=True, count=4)
    least = least_memory(encoded_graph(model), SYSTEM)
    driver = EthosU(DriverOptions(extra={"checked": "true", "sram": str(least + budget)}))
    workload = driver.prepare(model, PrepareOptions())
    schedule = compile_graph(encoded_graph(model), SYSTEM, CompilerOptions(budget=least + budget))
    assert schedule.graph != encoded_graph(model)
    values = random(Q8A, IMAGE)
    (expected,) = run_on(CpuRef(), model, values)
    np.testing.assert_array_equal(run_on(driver, model, values)[0], expected)
    kept = driver.prepare(model, PrepareOptions(artifact=workload.artifact()))
    assert kept.artifact() == workload.artifact()
    assert kept.working_bytes == workload.working_bytes
