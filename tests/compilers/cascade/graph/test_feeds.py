"""Inputs that the client hands over: the machine asks for what the next stripe needs, and agrees with cpu_ref."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from nnhal.operations.operand_types import Q8AS
from nnhal.resolved import ResolvedModel
from nnhal_cascade.compiler import CompilerOptions, frontier, least_memory
from nnhal_cascade.graph.bounds import memory_bound
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.feeds import InputPlace, input_place, place_of_inputs, with_inputs
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.machine.errors import StreamError
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.stream.disassembler import disassemble
from nnhal_cascade.stream.emit import emit
from tests.support.feeding import handed_over
from tests.support.npu import SAME
from tests.support.small_networks import Network, flattened, residual, two_convs

SYSTEM = system_for("u55-128")


def spoken() -> ResolvedModel:
    """One row: what lies one after the other are columns."""
    network = Network(1, 40, 16)
    first = network.depthwise(network.image, 16, side=1)
    return network.recipe.build(network.conv(first, 16, 8, side=1, scheme=SAME))


def spread() -> ResolvedModel:
    """A depthwise convolution alone, whose channels depend on no others."""
    network = Network(20, 20, 64)
    return network.recipe.build(network.depthwise(network.image, 64))


def joined() -> ResolvedModel:
    """Two inputs; the second is needed behind a convolution of the first."""
    network = Network(16, 16, 4)
    other = network.recipe.input(Q8AS, (1, 16, 16, 8), 0.05, -11)
    return network.recipe.build(network.add(network.conv(network.image, 4, 8, scheme=SAME), other))


def graph_of(model: ResolvedModel) -> CascaderGraph:
    return with_inputs(build_graph(model), InputPlace.STREAMED)


@pytest.mark.parametrize("build", [two_convs, residual, flattened, spoken, spread, joined])
def test_each_element_is_handed_over_once_and_in_order(build: Callable[[], ResolvedModel]) -> None:
    model = build()
    graph = graph_of(model)
    for schedule in frontier(graph, SYSTEM).points:
        assert schedule.peak >= memory_bound(schedule.graph).bytes
        for client in handed_over(model, schedule):
            assert client.places == list(range(client.values.size))


@pytest.mark.parametrize("build", [two_convs, flattened, spoken, joined])
def test_less_memory_is_needed_than_with_the_input_in_it(build: Callable[[], ResolvedModel]) -> None:
    model = build()
    resident, streamed = build_graph(model), graph_of(model)
    assert (place_of_inputs(resident), place_of_inputs(streamed)) == (InputPlace.RESIDENT, InputPlace.STREAMED)
    assert with_inputs(resident, InputPlace.RESIDENT) is resident
    assert memory_bound(streamed).bytes <= least_memory(streamed, SYSTEM) < least_memory(resident, SYSTEM)


def test_what_tiles_share_is_handed_over_again() -> None:
    model = two_convs()
    points = frontier(graph_of(model), SYSTEM, CompilerOptions(recompute=True)).points
    assert all(more.peak > less.peak for more, less in pairwise(points))
    (client,) = handed_over(model, points[-1])
    assert set(client.places) == set(range(client.values.size))
    assert len(client.places) > client.values.size


def test_a_client_that_hands_over_too_little_is_told() -> None:
    model = two_convs()
    schedule = frontier(graph_of(model), SYSTEM).points[-1]
    machine = Machine(emit(schedule), schedule.graph, model, SYSTEM)
    with pytest.raises(StreamError, match=r"a load of image of 1 elements, expected 96"):
        machine.run([lambda _: np.zeros(1, np.int8)])


def test_a_listing_names_the_client() -> None:
    listing = disassemble(emit(frontier(graph_of(two_convs()), SYSTEM).points[-1]))
    assert any("image (input)" in line and "<- the client" in line for line in listing.splitlines())


def test_another_place_is_refused() -> None:
    assert input_place("streamed") is InputPlace.STREAMED
    with pytest.raises(ValueError, match=r"^got 'Streamed', expected resident or streamed$"):
        input_place("Streamed")
