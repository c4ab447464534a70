from __future__ import annotations

from dataclasses import replace

from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.stream.commands import DIGEST_BYTES, graph_digest
from tests.support.small_networks import residual, two_convs


def test_graphs_of_one_model_have_one_digest() -> None:
    first, second = build_graph(two_convs()), build_graph(two_convs())
    assert first is not second
    assert graph_digest(first) == graph_digest(second)
    assert len(graph_digest(first)) == DIGEST_BYTES


def test_other_graphs_have_other_digests() -> None:
    graph = build_graph(two_convs())
    renamed = replace(graph, tensors=(replace(graph.tensors[0], name="photo"), *graph.tensors[1:]))
    part = replace(graph.parts[0], operations=(1,))
    other = replace(graph, parts=(part, *graph.parts[1:]))
    digests = {graph_digest(each) for each in (graph, renamed, other, build_graph(residual()))}
    assert len(digests) == 4
