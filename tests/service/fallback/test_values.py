"""Values that stay on a device that keeps them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from nnhal.types import TransferCosts
from nnhal_service.fallback import CLIENT, EdgeStrategy, Layer, PassedValue, Side, connect, values_of
from nnhal_service.fallback.edges import ASHMEM, DEVICE_BUFFER, HARDWARE_BUFFER_BLOB, MMAP_FD

ALL = frozenset({ASHMEM, HARDWARE_BUFFER_BLOB, MMAP_FD})
CPU = Side("cpu", ALL, ALL, 64)
FAR = Side("far", frozenset(), frozenset(), costs=TransferCosts(is_wire=True), keeps=True)
OTHER = replace(FAR, name="other")
SIDES = {side.name: side for side in (CPU, FAR, OTHER)}
INPUT, OUTPUT = 0, 9


@dataclass(frozen=True)
class Part:
    """A step of a plan."""

    device: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def value_5(*steps: Part, size: int = 100, outputs: frozenset[int] = frozenset({OUTPUT})) -> PassedValue:
    """Return operand 5 of a plan of these steps."""
    return values_of(steps, SIDES, frozenset({INPUT}), outputs, lambda _: size)[5]


ELSEWHERE = Part("cpu", (1,), (2,))


def test_a_value_is_kept_if_one_device_writes_it_and_alone_reads_it() -> None:
    kept = value_5(Part("far", (0,), (1, 5)), ELSEWHERE, Part("far", (2, 5), (3,)), Part("far", (3, 5), (OUTPUT,)))
    assert (kept.is_kept, kept.kind, kept.writer, kept.destinations) == (True, DEVICE_BUFFER, 0, (2, 3))
    assert {(edge.strategy, edge.layer) for edge in kept.edges} == {(EdgeStrategy.DIRECT_COMPATIBILITY, Layer.KEPT)}
    assert {edge.reason for edge in kept.edges} == {"both ends are on far, which keeps it in its own memory"}
    assert [edge.copied_bytes + edge.wire_up_bytes + edge.wire_down_bytes for edge in kept.edges] == [0, 0]
    assert not kept.needs_sync


@pytest.mark.parametrize(
    ("steps", "copied"),
    [
        pytest.param([Part("far", (0,), (5,)), Part("cpu", (5,), (OUTPUT,))], 100, id="another device reads it"),
        pytest.param([Part("cpu", (0,), (5,)), Part("far", (5,), (OUTPUT,))], 100, id="another device writes it"),
        pytest.param([Part("far", (0,), (5,)), Part("other", (5,), (OUTPUT,))], 200, id="two devices that keep"),
        pytest.param(
            [Part("far", (0,), (1, 5)), ELSEWHERE, Part("cpu", (5,), (6,)), Part("far", (2, 5, 6), (OUTPUT,))],
            200,
            id="one of two readers is another device",
        ),
    ],
)
def test_a_value_that_another_device_needs_travels(steps: list[Part], copied: int) -> None:
    value = value_5(*steps)
    assert not value.is_kept
    assert sum(edge.copied_bytes for edge in value.edges) == copied


def test_a_model_s_own_values_those_of_unknown_size_and_those_of_other_devices_are_not_kept() -> None:
    steps = [Part("far", (0,), (1, 5)), ELSEWHERE, Part("far", (2, 5), (OUTPUT,))]
    assert not value_5(*steps, outputs=frozenset({5, OUTPUT})).is_kept
    assert not value_5(*steps, size=0).is_kept
    assert not value_5(*[replace(step, device="cpu") for step in steps]).is_kept
    found = values_of(steps, SIDES, frozenset({INPUT}), frozenset({OUTPUT}), lambda _: 8)
    assert [operand for operand, value in found.items() if value.is_kept] == [5]


def test_a_kept_value_went_through_the_host_if_another_device_took_a_step() -> None:
    for source, destination in ((FAR, CPU), (CPU, FAR)):
        (edge,) = connect(source, [destination], 100, (DEVICE_BUFFER,))
        assert (edge.strategy, edge.layer) == (EdgeStrategy.COPY_TO_TARGET, Layer.MEM_COPY)
        assert (edge.bytes, edge.copied_bytes) == (100, 0)
        assert "another has taken a step" in edge.reason
    (edge,) = connect(CPU, [CPU], 100, (DEVICE_BUFFER,))
    assert (edge.strategy, edge.layer) == (EdgeStrategy.DIRECT_COMPATIBILITY, Layer.NONE)
    (edge,) = connect(CLIENT, [FAR], 100, (ASHMEM,))
    assert edge.copied_bytes == 100
