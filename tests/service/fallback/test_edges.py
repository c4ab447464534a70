"""The edges of values: strategies, layers and reasons."""

from __future__ import annotations

import pytest

from nnhal.remote import DeviceDescription
from nnhal.types import TensorHandleFactory, TransferCosts
from nnhal_service.fallback import CLIENT, EdgeStrategy, Layer, Side, connect
from nnhal_service.fallback.edges import ASHMEM, HARDWARE_BUFFER_BLOB, MMAP_FD, UNSEALED_FILE, edge_ns

ALL = frozenset({ASHMEM, HARDWARE_BUFFER_BLOB, MMAP_FD})
BLOB = frozenset({HARDWARE_BUFFER_BLOB})
CPU = Side("cpu", ALL, ALL, 64, costs=TransferCosts(10, 0, 2, 0.5))
GPU = Side("gpu", ALL, ALL, 128, is_asynchronous=True, needs_fallback_memory=True, costs=TransferCosts(10, 100, 3, 1.0))
NPU = Side("npu", BLOB, BLOB, 64, costs=TransferCosts(10, 0, 4, 2.0))
DSP = Side("dsp", frozenset({ASHMEM}), frozenset({ASHMEM}), 48)


@pytest.mark.parametrize(
    ("source", "destination", "strategy", "layer", "kind", "copied", "alignment", "sync"),
    [
        (CPU, CPU, EdgeStrategy.DIRECT_COMPATIBILITY, Layer.NONE, ASHMEM, 0, 64, False),
        (CPU, GPU, EdgeStrategy.EXPORT_TO_TARGET, Layer.MEM_IMPORT, ASHMEM, 0, 128, False),
        (GPU, CPU, EdgeStrategy.EXPORT_TO_TARGET, Layer.FALLBACK_IMPORT, ASHMEM, 0, 128, True),
        (GPU, NPU, EdgeStrategy.EXPORT_TO_TARGET, Layer.FALLBACK_IMPORT, HARDWARE_BUFFER_BLOB, 0, 128, True),
        (NPU, GPU, EdgeStrategy.EXPORT_TO_TARGET, Layer.MEM_IMPORT, HARDWARE_BUFFER_BLOB, 0, 128, False),
        (NPU, NPU, EdgeStrategy.DIRECT_COMPATIBILITY, Layer.NONE, HARDWARE_BUFFER_BLOB, 0, 64, False),
        (NPU, DSP, EdgeStrategy.COPY_TO_TARGET, Layer.MEM_COPY, ASHMEM, 1000, 48, False),
        (GPU, DSP, EdgeStrategy.EXPORT_TO_TARGET, Layer.FALLBACK_IMPORT, ASHMEM, 0, 384, True),
    ],
    ids=lambda value: value.name if isinstance(value, Side) else "",
)
def test_an_edge_copies_only_if_no_memory_satisfies_both_sides(
    source: Side,
    destination: Side,
    strategy: EdgeStrategy,
    layer: Layer,
    kind: str,
    copied: int,
    alignment: int,
    sync: bool,
) -> None:
    (edge,) = connect(source, [destination], 1000)
    assert (edge.strategy, edge.layer, edge.kind) == (strategy, layer, kind)
    assert (edge.copied_bytes, edge.alignment, edge.sync) == (copied, alignment, sync)


def test_one_source_with_several_destinations_lies_where_fewest_copy() -> None:
    edges = connect(CPU, [DSP, NPU, GPU, DSP], 8)
    assert {edge.kind for edge in edges} == {ASHMEM}
    assert [edge.copied_bytes for edge in edges] == [0, 8, 0, 0]
    assert {edge.kind for edge in connect(CPU, [NPU, NPU, DSP], 8)} == {HARDWARE_BUFFER_BLOB}


def test_what_the_source_copies_it_copies_once() -> None:
    first, second, third = connect(NPU, [CPU, CLIENT, DSP], 8, (ASHMEM,))
    assert [(edge.copied_out, edge.copied_in) for edge in (first, second, third)] == [(8, 0), (0, 0), (0, 0)]
    assert {edge.strategy for edge in (first, second, third)} == {EdgeStrategy.COPY_TO_TARGET}
    assert "once for all" not in first.reason
    assert second.reason == (
        "it lies in ashmem, and npu leaves results in hardware_buffer_blob only, which it copies once for all readers"
    )
    (both,) = connect(NPU, [NPU], 8, (ASHMEM,))
    assert (both.copied_out, both.copied_in, both.copied_bytes) == (8, 8, 16)


def test_memory_of_the_client_is_taken_as_it_is() -> None:
    (edge,) = connect(CLIENT, [NPU], 8, (ASHMEM,))
    assert (edge.strategy, edge.copied_bytes) == (EdgeStrategy.COPY_TO_TARGET, 8)
    assert edge.reason == "it lies in ashmem, and npu imports hardware_buffer_blob only"
    (edge,) = connect(GPU, [CLIENT], 8, (ASHMEM,))
    assert (edge.strategy, edge.sync) == (EdgeStrategy.EXPORT_TO_TARGET, True)


def test_reasons_say_what_both_sides_can_do() -> None:
    (edge,) = connect(GPU, [NPU], 8)
    assert edge.reason == "gpu leaves it in hardware_buffer_blob, npu imports that at multiples of 128"
    (edge,) = connect(GPU, [DSP], 8)
    assert edge.reason.endswith("dsp imports that at multiples of 384, common to 128 and 48")
    (edge,) = connect(NPU, [DSP], 8)
    assert edge.reason == "it lies in ashmem, and npu leaves results in hardware_buffer_blob only"


def test_a_device_is_taken_by_the_first_of_its_factories_that_imports() -> None:
    buffer = TensorHandleFactory("g/buffer", frozenset(), frozenset(), True, 16, False)
    importing = TensorHandleFactory("g/import", ALL, BLOB, False, 128, True)
    description = DeviceDescription(
        "g", ALL, 128, True, 1, (buffer, importing), True, TransferCosts(1, 2, 3, 4), "an emulation"
    )
    side = Side.of("gpu0", description)
    assert side == Side("gpu0", ALL, BLOB, 128, True, True, TransferCosts(1, 2, 3, 4))


def test_a_device_keeps_values_if_one_of_its_factories_says_so() -> None:
    own = TensorHandleFactory("far/own", relaxed_as_float16=True, keeps=True)
    importing = TensorHandleFactory("far/import", BLOB, BLOB)
    costs = TransferCosts(1, 2, 3, 4)
    for factories, expected in (
        ((own,), Side("far", frozenset(), frozenset(), costs=costs, relaxed_as_float16=True, keeps=True)),
        ((own, importing), Side("far", BLOB, BLOB, costs=costs, keeps=True)),
        ((importing,), Side("far", BLOB, BLOB, costs=costs)),
    ):
        description = DeviceDescription("far", ALL, 1, False, 1, factories, False, costs, "a test")
        assert Side.of("far", description) == expected


def test_what_a_remote_device_copies_goes_over_the_wire() -> None:
    costs = TransferCosts(1, 0, 0, 2, is_wire=True)
    keeping = TensorHandleFactory("r/own", keeps=True)
    side = Side.of("npu-7", DeviceDescription("r", ALL, 1, False, 1, (keeping,), False, costs, "elsewhere"))
    assert side == Side("npu-7", frozenset(), frozenset(), costs=costs, keeps=True)
    first, second, back = connect(side, [CPU, GPU, side], 8)
    assert [(edge.wire_up_bytes, edge.wire_down_bytes) for edge in (first, second, back)] == [(0, 8), (0, 0), (8, 0)]
    assert first.reason == "it lies in ashmem, and npu-7 sends its results over a network"
    (there,) = connect(NPU, [side], 8, (ASHMEM,))
    assert (there.copied_bytes, there.wire_up_bytes, there.wire_down_bytes) == (16, 8, 0)


@pytest.mark.parametrize(("maps", "kinds", "copied"), [(True, ALL, 0), (False, ALL, 8), (True, BLOB, 8)])
def test_files_that_may_shrink_are_copied_unless_the_device_maps_them(
    maps: bool, kinds: frozenset[str], copied: int
) -> None:
    factory = TensorHandleFactory("g/import", kinds, kinds, True, 64, False)
    costs = TransferCosts(1, 2, 3, 4)
    side = Side.of(
        "g", DeviceDescription("g", kinds, 64, False, 1, (factory,), False, costs, "an emulation", maps_files=maps)
    )
    (edge,) = connect(CLIENT, [side], 8, (UNSEALED_FILE,))
    assert edge.copied_bytes == copied
    (edge,) = connect(side, [CLIENT], 8, (UNSEALED_FILE,))
    assert edge.copied_bytes == copied


def test_costs_follow_the_strategy() -> None:
    cost = edge_ns({side.name: side for side in (CPU, GPU, NPU, DSP)})
    assert cost("cpu", "cpu", 1000) == 0
    assert cost("cpu", "gpu", 1000) == 3
    assert cost("gpu", "cpu", 1000) == 100 + 2
    assert cost("gpu", "npu", 1_000_000) == 100 + 4
    assert cost(None, "npu", 1000) == 4  # the client lays its memory out as the NPU imports it
    assert cost("gpu", None, 1000) == 100
    assert cost("npu", "dsp", 1000) == 2000
