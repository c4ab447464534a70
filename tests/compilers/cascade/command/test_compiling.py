"""From what a user asks for to schedules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import NnhalError
from nnhal_cascade.command.compiling import (
    CascadeRequest,
    MisfitError,
    changed,
    chosen_budget,
    chosen_search,
    chosen_system,
    compile_network,
)
from nnhal_cascade.command.network import Network, UnsupportedNetworkError, read_network
from nnhal_cascade.compiler import CompilerOptions
from tests.support.cascades import SYSTEM, write_network

MEMORIES = """
accelerator = "u55-64"
clock_hz = 100_000_000

[[region]]
name = "ram"
size = "16KiB"
bandwidth = 4.0
read_latency = 10
write_latency = 10
burst = 16
holds = ["activations"]

[[region]]
name = "rom"
size = "1MiB"
bandwidth = 0.5
read_latency = 20
write_latency = 0
burst = 64
holds = ["constants"]
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return read_network(write_network(tmp_path_factory.mktemp("models") / "network.tflite"))


def request(budget: int, recompute: bool = False, max_parts: int | None = None) -> CascadeRequest:
    return CascadeRequest(SYSTEM, budget, CompilerOptions(None, max_parts, recompute))


def test_a_network_is_read_with_its_parts_and_names(network: Network) -> None:
    assert network.name == "network.tflite"
    assert [part.operation for part in network.graph.parts] == ["CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "CONV_2D"]
    assert [tensor.name for tensor in network.graph.tensors] == ["image", "a", "b", "c", "d"]


def test_a_network_of_floats_is_refused_with_the_operations_and_the_reason(tmp_path: Path) -> None:
    path = write_network(tmp_path / "floats.tflite", np.float32)
    with pytest.raises(UnsupportedNetworkError) as caught:
        read_network(path)
    message = str(caught.value)
    assert "floats.tflite: ethos_u runs 0 of 4 operations" in message
    assert "operation 0 (CONV_2D)" in message
    assert "TENSOR_FLOAT32" in message and "TENSOR_QUANT8_ASYMM" in message


def test_a_network_that_runs_in_part_has_its_subgraphs_and_the_rest(tmp_path: Path) -> None:
    path = write_network(tmp_path / "parts.tflite", refused=True)
    with pytest.raises(UnsupportedNetworkError) as caught:
        read_network(path)
    first, second = caught.value.subgraphs
    assert [part.operation for part in first.graph.parts] == ["CONV_2D", "DEPTHWISE_CONV_2D", "ADD"]
    assert [part.operation for part in second.graph.parts] == ["CONV_2D"]
    assert first.name == "parts.tflite, 3 operations from 0 to 2"
    (rest,) = caught.value.reasons
    assert rest.operations == ("operation 3 (L2_NORMALIZATION)",)
    assert rest.bytes == 2 * first.graph.tensors[-1].bytes
    assert "runs 4 of 5 operations in 2 subgraphs" in str(caught.value)
    assert compile_network(first, request(1400), False).schedule.peak <= 1400


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.tflite"
    path.write_text("no model")
    with pytest.raises(NnhalError, match="8 bytes that are neither an ONNX nor a TFLite model"):
        read_network(path)


def test_the_schedule_fits_the_budget(network: Network) -> None:
    loose = compile_network(network, request(1 << 20), False).schedule
    tight = compile_network(network, request(1400), False).schedule
    assert tight.peak <= 1400
    assert loose.cycles <= tight.cycles


def test_the_frontier_goes_from_most_memory_to_least_and_never_gets_faster(network: Network) -> None:
    compiled = compile_network(network, request(1400), True)
    assert compiled.frontier is not None
    points = [(each.peak, each.cycles) for each in compiled.frontier.points]
    assert [peak for peak, _ in points] == sorted((peak for peak, _ in points), reverse=True)
    assert [cycles for _, cycles in points] == sorted(cycles for _, cycles in points)
    assert compiled.schedule.peak == max(peak for peak, _ in points if peak <= 1400)


@pytest.mark.parametrize("with_frontier", [False, True])
def test_a_budget_below_the_least_is_refused_with_the_least(network: Network, with_frontier: bool) -> None:
    with pytest.raises(
        MisfitError, match=r"does not fit 300 bytes .* of sram: the least found is [\d,]+ bytes"
    ) as caught:
        compile_network(network, request(300), with_frontier)
    least = caught.value.report.least
    assert compile_network(network, request(least), False).schedule.peak == least
    with pytest.raises(MisfitError):
        compile_network(network, request(least - 1), False)


def test_a_misfit_says_what_recomputing_would_reach(network: Network) -> None:
    with pytest.raises(MisfitError) as caught:
        compile_network(network, request(300), False)
    story = caught.value.report
    assert story.least_with_recompute <= story.least
    assert story.bound is not None
    assert f"with plans of up to {story.parts} parts; bound {story.bound.bytes:,} bytes" in str(caught.value)
    assert story.bound_with_recompute is not None
    assert story.bound_with_recompute.bytes <= story.least_with_recompute
    assert ("--recompute reaches" in str(caught.value)) == (story.least_with_recompute < story.least)


def test_cascades_can_be_forbidden(network: Network) -> None:
    schedule = compile_network(network, request(1 << 20, max_parts=1), False).schedule
    assert [len(plan.parts) for plan in schedule.proposal.plans] == [1, 1, 1, 1]


def test_a_file_of_memories_takes_the_place_of_the_devices_own(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(MEMORIES)
    system = chosen_system("", path)
    assert (system.name, system.accelerator.name, system.working.name) == ("board", "u55-64", "ram")
    assert chosen_system("u55-256", path).accelerator.name == "u55-256"


def test_the_default_is_a_u55_of_128() -> None:
    assert chosen_system("", None).accelerator.name == "u55-128"


@pytest.mark.parametrize(("size", "budget"), [(None, 4 << 20), ("240KiB", 245_760), ("1GiB", 4 << 20)])
def test_a_budget_is_at_most_the_working_memory(size: str | None, budget: int) -> None:
    assert chosen_budget(size, SYSTEM) == budget


def test_cascades_have_their_buffers_in_the_region_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    slow = MEMORIES.partition("[[region]]")[2].partition("[[region]]")[0].replace('"ram"', '"slow"')
    path.write_text(MEMORIES.replace('[[region]]\nname = "rom"', f'[[region]]{slow}[[region]]\nname = "rom"'))
    found = chosen_system("", path, region="slow")
    assert found.spill is not None
    assert (found.working.name, found.spill.name, found.constants.name) == ("slow", "ram", "rom")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"region": "tcm"}, "--cascade-region: got 'tcm', expected a memory of u55-128 that may hold .*: sram$"),
        ({"region": "flash"}, "--cascade-region: got 'flash', expected a memory of u55-128"),
        ({"block": "4x4"}, "got block '4x4', expected ROWSxCOLUMNSxCHANNELS in multiples of 1x2x16, up to the 32x64x"),
        ({"block": "4x4x8"}, "got block '4x4x8'"),
        ({"block": "64x4x16"}, "got block '64x4x16'"),
        ({"block": "-4x4x16"}, "got block '-4x4x16'"),
    ],
)
def test_what_the_system_has_not_is_refused_with_what_it_has(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen_system("u55-128", None, (), **options)


def test_constants_are_not_copied_where_none_may_be() -> None:
    system = chosen_system("u55-128", None, ['sram.holds=["activations"]'])
    with pytest.raises(ValueError, match="--always-copy-size: got 64 bytes, but sram holds no constants"):
        chosen_search(system, None, False, None, "64", None)


@pytest.mark.parametrize("size", ["12parsec", ""])
def test_a_budget_that_is_no_size_is_refused(size: str) -> None:
    with pytest.raises(ValueError, match=f"'{size}' is no size"):
        chosen_budget(size, SYSTEM)


def test_without_settings_the_system_is_the_same() -> None:
    assert changed(SYSTEM, []) is SYSTEM


def test_settings_change_values_of_the_system_and_of_regions() -> None:
    settings = ["clock_hz=400_000_000", "sram.size=256KiB", "flash.bandwidth=0.5", 'flash.holds=["constants"]']
    found = changed(SYSTEM, settings)
    assert (found.name, found.accelerator, found.clock_hz) == (SYSTEM.name, SYSTEM.accelerator, 400_000_000)
    assert (found.working.size, found.constants.bandwidth) == (262_144, 0.5)
    assert found.working.bandwidth == SYSTEM.working.bandwidth


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sram.size", "'sram.size': expected KEY=VALUE"),
        ("dram.size=1MiB", "got region 'dram', expected one of sram, flash"),
        ("sram.colour=1", "colour is an unknown key"),
        ("sram.size=0", "size is 0, expected"),
        ("sram.bandwidth=fast", "bandwidth is 'fast', expected bytes a cycle"),
        ("clock_hz=-1", "clock_hz is -1, expected"),
    ],
)
def test_a_wrong_setting_is_refused_in_a_sentence(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        changed(SYSTEM, [setting])
