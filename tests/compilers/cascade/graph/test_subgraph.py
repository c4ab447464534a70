from __future__ import annotations

import pytest

from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.graph.subgraph import subgraph
from tests.support.ethos_u import needs_networks, network


@needs_networks
@pytest.mark.parametrize("parts", [range(65), range(5, 9), {7, 20, 21}, {0}, {64}])
def test_tensors_at_the_border_are_inputs_and_outputs(parts: range | set[int]) -> None:
    graph = build_graph(network("mobilenet_v2_1.0_224"))
    part = subgraph(graph, parts)
    assert [each.name for each in part.parts] == [graph.parts[index].name for index in sorted(parts)]
    for tensor in part.tensors:
        writer, readers = part.producers[tensor.index], part.consumers[tensor.index]
        assert tensor.is_input == (writer is None)
        whole = graph.tensors[graph.tensor_of[tensor.operand]]
        elsewhere = len(graph.consumers[whole.index]) > len(readers)
        assert tensor.is_output == (writer is not None and (whole.is_output or elsewhere))
        assert tensor.shape == whole.shape


@needs_networks
def test_all_parts_are_the_graph() -> None:
    graph = build_graph(network("ds_cnn_kws"))
    assert subgraph(graph, range(len(graph.parts))) == graph
