"""The chains of which planning is timed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.compilers.chains import chain, planning_seconds
from nnhal_cascade.geometry.box import whole
from nnhal_cascade.hardware.memory_file import system_for


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_each_part_reads_all_that_the_part_before_writes(parts: int) -> None:
    graph = chain(parts)
    assert len(graph.parts) == parts
    assert [tensor.is_input for tensor in graph.tensors] == [True] + [False] * parts
    assert [tensor.is_output for tensor in graph.tensors] == [False] * parts + [True]
    for part in graph.parts:
        (given,) = part.inputs
        assert given.needs(whole(graph.tensors[part.output].shape)) == whole(graph.tensors[given.tensor].shape)
    assert all(before.output == after.inputs[0].tensor for before, after in pairwise(graph.parts))


def test_a_chain_is_planned_for_each_count() -> None:
    found = planning_seconds([1, 3], system_for("u55-128"))
    assert [count for count, _ in found] == [1, 3]
    assert all(seconds > 0 for _, seconds in found)
