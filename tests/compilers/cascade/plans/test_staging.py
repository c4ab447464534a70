"""Copies of tensors that lie in a far memory, for parts that read them faster nearby."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.resolved import ResolvedModel
from nnhal_cascade.compiler import CompilerOptions, compile_graph, planned_graphs
from nnhal_cascade.graph.cascader_graph import PartKind
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.performance.encoding import encoded_graph
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.staging import staged, staged_readings
from nnhal_cascade.stream.commands import graph_digest
from nnhal_cascade.stream.emit import emit
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from tests.support.agreement import inputs_of
from tests.support.npu import SAME
from tests.support.small_networks import Network, residual

FAR, NEAR = system_for("u65-256-high-end"), system_for("u55-128")
IMAGE, BUDGET = 0, 8192
"""The tensor of the network's input, and bytes that have no room for it."""


def pictures() -> ResolvedModel:
    """Two convolutions over an image of three channels, of which a burst takes few."""
    network = Network(64, 64, 3)
    first = network.conv(network.image, 3, 32, scheme=SAME, stride=2)
    return network.recipe.build(network.conv(first, 32, 8, scheme=SAME, stride=2))


def test_a_reader_of_short_bursts_is_given_a_copy() -> None:
    graph = encoded_graph(pictures())
    homes = Homes(graph, FAR, frozenset({IMAGE}))
    assert staged_readings(homes, StripePricer(graph, FAR)) == {(0, IMAGE)}


def test_nothing_is_copied_if_it_lies_in_the_working_memory_already() -> None:
    graph = encoded_graph(pictures())
    for system in (FAR, NEAR):
        assert not staged_readings(Homes(graph, system), StripePricer(graph, system))


def test_a_copy_is_a_part_before_its_reader() -> None:
    graph = encoded_graph(residual())
    # The sum reads the first convolution's output, which the second one reads as well.
    (source,) = (tensor for tensor in (1,) if graph.consumers[tensor] == (1, 2))
    found = staged(graph, {(2, source)})
    assert [part.kind for part in found.parts] == [
        *(part.kind for part in graph.parts[:2]),
        PartKind.COPY,
        graph.parts[2].kind,
    ]
    assert [part.index for part in found.parts] == [0, 1, 2, 3]
    assert found.tensors[: len(graph.tensors)] == graph.tensors
    copy = found.tensors[-1]
    assert (copy.shape, copy.is_input, copy.is_output) == (graph.tensors[source].shape, False, False)
    assert found.consumers[source] == (1, 2)
    assert found.consumers[copy.index] == (3,)


def test_a_schedule_with_copies_runs_as_planned() -> None:
    model = pictures()
    graph = encoded_graph(model)
    schedule = compile_graph(graph, FAR, CompilerOptions(budget=BUDGET))
    copied = {part.inputs[0].tensor for part in schedule.graph.parts if not part.operations}
    assert IMAGE in copied
    assert schedule.peak <= BUDGET
    # It is one of the graphs that a device looks for when it is given the stream again.
    assert graph_digest(schedule.graph) in map(graph_digest, planned_graphs(graph, FAR))
    inputs = inputs_of(model)
    outputs, measured = Machine(emit(schedule), schedule.graph, model, FAR, checked=True).run(inputs)
    assert (measured.peak, measured.cycles) == (schedule.peak, schedule.cycles)
    for got, expected in zip(outputs, Interpreter(model).run(0, inputs, Control()), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_copies_cost_fewer_cycles_than_reading_from_afar(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, options = encoded_graph(pictures()), CompilerOptions(budget=BUDGET)
    with_copies = compile_graph(graph, FAR, options).cycles
    monkeypatch.setattr("nnhal_cascade.compiler.staged_readings", lambda *_: frozenset())
    assert with_copies < 0.9 * compile_graph(graph, FAR, options).cycles


def test_a_system_without_a_far_memory_plans_the_graph_alone() -> None:
    graph = encoded_graph(pictures())
    assert list(planned_graphs(graph, NEAR)) == [graph]
