"""The memory that values lie in: its layout, and its owner."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.errors import HalError
from nnhal.memory import validate_pool
from nnhal_service.fallback import FallbackMemoryManager, PassedValue, Side, lay_out, values_of
from nnhal_service.fallback.edges import ASHMEM, HARDWARE_BUFFER_BLOB
from tests.service.fallback.test_edges import CPU, DSP, GPU, NPU

SIDES = {side.name: side for side in (CPU, GPU, NPU, DSP)}


@dataclass(frozen=True)
class Step:
    """A step of a plan."""

    device: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def values(steps: list[Step], inputs: set[int], outputs: set[int], size: int = 100) -> dict[int, PassedValue]:
    return dict(values_of(steps, SIDES, frozenset(inputs), frozenset(outputs), lambda _: size))


def test_values_pass_from_client_through_steps_to_client() -> None:
    steps = [Step("gpu", (0,), (1,)), Step("npu", (1,), (2, 3)), Step("cpu", (2, 3, 0), (4,))]
    found = values(steps, {0}, {4})
    assert {operand: value.is_ours for operand, value in found.items()} == {
        0: False,
        1: True,
        2: True,
        3: True,
        4: False,
    }
    assert found[1].kind == HARDWARE_BUFFER_BLOB
    assert [(edge.source, edge.destination) for edge in found[0].edges] == [("client", "gpu"), ("client", "cpu")]
    assert (found[2].first, found[2].last) == (1, 2)
    assert found[1].needs_sync
    assert not found[4].needs_sync


def test_an_output_that_a_later_step_reads_lies_in_the_clients_memory() -> None:
    found = values([Step("cpu", (0,), (1,)), Step("npu", (1,), (2,))], {0}, {1, 2})
    assert not found[1].is_ours
    assert [edge.destination for edge in found[1].edges] == ["npu", "client"]
    assert [edge.copied_bytes for edge in found[1].edges] == [0, 0]
    assert {edge.kind for value in found.values() for edge in value.edges} == {HARDWARE_BUFFER_BLOB}


def test_kinds_have_arenas_of_their_own_and_common_alignments() -> None:
    steps = [Step("gpu", (0,), (1, 2)), Step("npu", (1,), (3,)), Step("dsp", (2,), (4,)), Step("cpu", (3, 4), (5,))]
    found = values(steps, {0}, {5})
    layout = lay_out([value for value in found.values() if value.is_ours])
    assert layout.placements[1].kind == HARDWARE_BUFFER_BLOB
    assert layout.placements[2].kind == ASHMEM
    assert layout.placements[2].offset % 384 == 0
    assert set(layout.sizes) == {ASHMEM, HARDWARE_BUFFER_BLOB}
    assert lay_out([value for value in found.values() if value.is_ours], align=False).total_bytes <= layout.total_bytes


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(SIDES)), st.sampled_from(sorted(SIDES)), st.integers(1, 1000)),
        min_size=1,
        max_size=12,
    )
)
def test_values_that_live_together_never_share_bytes(chain: list[tuple[str, str, int]]) -> None:
    steps = [Step(device, (number,), (number + 1,)) for number, (device, _, _) in enumerate(chain)]
    sizes = [size for _, _, size in chain] + [7]
    found = values_of(steps, SIDES, frozenset({0}), frozenset({len(chain)}), lambda operand: sizes[operand])
    ours = [value for value in found.values() if value.is_ours]
    layout = lay_out(ours)
    for one in ours:
        place = layout.placements[one.operand]
        assert place.offset % lcm(*(edge.alignment for edge in one.edges)) == 0
        assert place.offset + one.size <= layout.sizes[place.kind]
        for other in ours:
            if other is one or other.last < one.first or one.last < other.first:
                continue
            there = layout.placements[other.operand]
            assert (
                there.kind != place.kind
                or there.offset + other.size <= place.offset
                or place.offset + one.size <= there.offset
            )


def test_fallback_memory_is_used_again_and_freed_when_the_network_is_unloaded() -> None:
    steps = [Step("gpu", (0,), (1,)), Step("npu", (1,), (2,)), Step("cpu", (2,), (3,))]
    found = values(steps, {0}, {3})
    manager = FallbackMemoryManager(lay_out([value for value in found.values() if value.is_ours]))
    assert manager.allocated_bytes == 0
    first, second = manager.acquire(), manager.acquire()
    assert first is not second
    assert {kind: validate_pool(pool, kind) for kind, pool in first.pools.items()} == dict(manager.layout.sizes)
    manager.release(first)
    assert manager.acquire() is first
    assert manager.allocated_bytes == 2 * manager.layout.total_bytes
    manager.release(second)
    manager.close()
    assert manager.allocated_bytes == manager.layout.total_bytes
    manager.release(first)
    assert manager.allocated_bytes == 0
    with pytest.raises(HalError, match="unloaded"):
        manager.acquire()


def test_fallback_memory_that_a_device_may_still_write_is_not_used_again() -> None:
    found = values([Step("gpu", (0,), (1,)), Step("npu", (1,), (2,))], {0}, {2})
    manager = FallbackMemoryManager(lay_out([value for value in found.values() if value.is_ours]))
    memory = manager.acquire()
    manager.release(memory, is_done=False)
    assert manager.allocated_bytes == 0
    assert manager.acquire() is not memory


def test_a_device_that_imports_nothing_copies_everything() -> None:
    alone = Side("alone", frozenset(), frozenset())
    found = values_of([Step("alone", (0,), (1,))], {"alone": alone}, frozenset({0}), frozenset({1}), lambda _: 10)
    assert [edge.copied_bytes for value in found.values() for edge in value.edges] == [10, 10]
