"""Places and lives of elements."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_cascade.command.compiling import CascadeRequest, compile_network
from nnhal_cascade.command.network import read_network
from nnhal_cascade.compiler import CompilerOptions
from nnhal_cascade.schedule.lives import LiveBytes, TensorLife, lives
from nnhal_cascade.schedule.replay import replay
from tests.support.cascades import GRAPH, SIDE, SYSTEM, schedule, write_network


def apart(one: LiveBytes, other: LiveBytes) -> bool:
    """Return if two pieces share no byte at any time."""
    below = one.address + one.bytes <= other.address or other.address + other.bytes <= one.address
    return below or one.end <= other.start or other.end <= one.start


@pytest.fixture(scope="module")
def told() -> dict[str, TensorLife]:
    made = schedule()
    return {life.name: life for life in lives(made, replay(made))}


def test_each_tensor_has_its_life(told: dict[str, TensorLife]) -> None:
    assert list(told) == ["image", "a", "b", "c", "d"]


def test_all_that_is_alive_lies_in_its_buffer(told: dict[str, TensorLife]) -> None:
    for life in told.values():
        for piece in life.pieces:
            assert life.buffer.address <= piece.address
            assert piece.address + piece.bytes <= life.buffer.address + life.buffer.bytes
            assert piece.start < piece.end


@pytest.mark.parametrize("name", ["image", "a", "b", "c", "d"])
def test_no_byte_is_alive_twice(told: dict[str, TensorLife], name: str) -> None:
    pieces = told[name].pieces
    for number, one in enumerate(pieces):
        for other in pieces[:number]:
            assert apart(one, other)


def test_every_row_of_a_rolling_buffer_lives_once(told: dict[str, TensorLife]) -> None:
    assert sum(piece.bytes for piece in told["a"].pieces) == GRAPH.tensors[1].bytes
    assert {piece.address for piece in told["a"].pieces} == {256, 256 + 64, 256 + 128}


def test_rows_of_an_input_die_in_order(told: dict[str, TensorLife]) -> None:
    by_address = sorted(told["image"].pieces)
    assert len(by_address) > SIDE // 2
    assert [piece.end for piece in by_address] == sorted(piece.end for piece in by_address)
    assert {piece.start for piece in by_address} == {0}


def test_a_tensor_that_the_next_plan_reads_lives_on(told: dict[str, TensorLife]) -> None:
    end = schedule().cycles
    first = min(told["c"].pieces)
    assert first.start < told["d"].pieces[0].start
    assert {piece.end for piece in told["d"].pieces} == {end}


def test_stripes_of_channels_are_told_one_after_the_other(told: dict[str, TensorLife]) -> None:
    assert sum(piece.bytes for piece in told["d"].pieces) == GRAPH.tensors[4].bytes


@pytest.mark.parametrize("recompute", [False, True])
def test_no_schedule_of_a_frontier_has_two_tensors_alive_in_one_byte(tmp_path: Path, recompute: bool) -> None:
    network = read_network(write_network(tmp_path / "network.tflite"))
    request = CascadeRequest(SYSTEM, SYSTEM.working.size, CompilerOptions(recompute=recompute))
    found = compile_network(network, request, True).frontier
    assert found is not None
    for made in found.points:
        told = [piece for life in lives(made, replay(made)) for piece in life.pieces]
        for number, one in enumerate(told):
            for other in told[:number]:
                assert apart(one, other)
