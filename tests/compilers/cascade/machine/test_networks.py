"""Random networks with branches and the networks of NNHAL_MODELS, cascaded, in checking mode: cpu_ref's outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.resolved import ResolvedModel
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.plans.plan import Plan
from nnhal_cascade.stream.binary import from_bytes, to_bytes
from nnhal_cascade.stream.emit import emit
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from tests.support.agreement import inputs_of
from tests.support.ethos_u import needs_networks, network
from tests.support.random_networks import random_networks
from tests.support.random_plans import random_plans
from tests.support.schedules import cascade, schedule_of
from tests.support.searching import search

SYSTEM = system_for("u55-128")
NETWORKS = [
    "two_conv_rfc",
    "ds_cnn_kws",
    "mobilenet_v1_0.25_96",
    pytest.param("mobilenet_v1_1.0_224", marks=pytest.mark.slow),
    pytest.param("mobilenet_v2_1.0_224", marks=pytest.mark.slow),
]


def assert_right(model: ResolvedModel, graph: CascaderGraph, plans: Sequence[Plan], backwards: Sequence[bool]) -> None:
    schedule = schedule_of(graph, SYSTEM, plans, backwards)
    stream = from_bytes(to_bytes(emit(schedule)))
    inputs = inputs_of(model)
    outputs, measured = Machine(stream, graph, model, SYSTEM, checked=True).run(inputs)
    expected = Interpreter(model).run(0, inputs, Control())
    for got, wanted in zip(outputs, expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    assert measured.live <= measured.peak == schedule.peak


@pytest.mark.slow
@search(20)
@given(random_networks(), st.data())
def test_random_networks_cascaded_at_random(model: ResolvedModel, data: st.DataObject) -> None:
    graph = build_graph(model)
    plans, backwards = data.draw(random_plans(graph))
    assert_right(model, graph, plans, backwards)


@needs_networks
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_as_one_cascade_of_single_rows(name: str) -> None:
    model = network(name)
    graph = build_graph(model)
    assert_right(model, graph, [cascade(graph, range(len(graph.parts)), 1)], [False])
