"""What is in the working memory, part by part."""

from __future__ import annotations

from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.working_set import WorkingSet
from tests.support.small_networks import two_convs


def test_spilled_tensors_take_none_of_the_working_memory() -> None:
    graph = build_graph(two_convs())
    assert WorkingSet(Homes(graph, system_for("u55-128"))).alive == [1152, 800, 256]
    assert WorkingSet(Homes(graph, system_for("u65-256"), frozenset({1}))).alive == [1152, 0, 256]
