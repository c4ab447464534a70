from __future__ import annotations

from typing import Any

import pytest

from nnhal.operations.operand_types import I32, Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperationType
from nnhal_cascade.compiler import least_memory
from nnhal_cascade.graph.bounds import MemoryBound, memory_bound
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from tests.support.agreement import single
from tests.support.ethos_u import examples, needs_networks, network
from tests.support.models import Recipe

SYSTEM = system_for("u55-128")


def one(kind: OperationType, dimensions: tuple[int, ...], *parameters: Any) -> ResolvedModel:
    return single(kind, Q8A, [dimensions], parameters)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (one(OperationType.RELU, (1, 6, 5, 4)), MemoryBound(120, "its inputs are there as a whole when it starts")),
        (
            one(OperationType.TILE, (1, 6, 5, 4), [1, 2, 1, 1]),
            MemoryBound(240, "its outputs are there as a whole when it ends"),
        ),
    ],
)
def test_inputs_and_outputs_are_there_as_a_whole(model: ResolvedModel, expected: MemoryBound) -> None:
    assert memory_bound(build_graph(model)) == expected


def test_an_element_depends_on_more_than_inputs_and_outputs() -> None:
    recipe, plain = Recipe(), Operand(Q8A, (), 0.05, 117)
    given = recipe.input(Q8A, (1, 2, 5, 4), plain.scale, plain.zero_point)
    tiled = recipe.operation(OperationType.TILE, [given, recipe.constant(I32, [1, 3, 1, 1])], plain)
    averaged = [tiled, recipe.constant(I32, [1, 2, 3]), *recipe.integers(1)]
    graph = build_graph(recipe.build(recipe.operation(OperationType.MEAN, averaged, plain)))
    assert memory_bound(graph) == MemoryBound(120, f"one element of {graph.parts[1].name} depends on as much")


@pytest.mark.parametrize("name", ["CONV_2D SAME", "ADD of a row", "MEAN of channels", "SOFTMAX", "TRANSPOSE"])
def test_no_schedule_takes_less(name: str) -> None:
    graph = build_graph(examples(Q8A)[name])
    assert memory_bound(graph).bytes <= least_memory(graph, SYSTEM)


@needs_networks
def test_the_bound_of_mobilenet_is_its_image() -> None:
    assert memory_bound(build_graph(network("mobilenet_v1_1.0_224"))).bytes == 224 * 224 * 3


@needs_networks
def test_what_waits_at_a_pooling_is_close_to_the_least() -> None:
    graph = build_graph(network("ds_cnn_kws"))
    bound = memory_bound(graph)
    assert bound.bytes == 125 * 63
    assert bound.why.endswith("ends with its first channel when as much of the others waits")
    assert bound.bytes <= least_memory(graph, SYSTEM) == 8_640
    assert memory_bound(graph, recompute=True).bytes == 490
