"""Binaries that run, and binaries that do not."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.program.codec import CodeOffsets, decode_program, encode_program
from nnhal_mlip.program.errors import BinaryError, ProgramError
from nnhal_mlip.simulator.errors import SimulatorError, StaleBytesError
from nnhal_mlip.simulator.machine import TileMachine
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.profile import read_profile
from tests.support.mlip_by_hand import HandMade, halved_convolution

PROFILE = read_profile()
RANDOM = np.random.default_rng(11)
IMAGE: Array = RANDOM.uniform(-1, 1, (1, 8, 6, 4)).astype(np.float16)
FILTERS: Array = RANDOM.uniform(-1, 1, (4, 3, 3, 4)).astype(np.float16)


def made() -> HandMade:
    return halved_convolution(IMAGE, FILTERS)


def test_a_run_says_what_it_did_and_how_long_it_would_take() -> None:
    run = Simulator(made().binary(), PROFILE, checked=True).run([IMAGE])
    assert (run.counters.transfers, run.counters.stages, run.counters.tasks) == (5, 1, 2)
    assert run.counters.macs == 8 * 6 * 4 * 9 * 4
    assert run.counters.ddr_read == {"weights": 9 * 4 * 4 * 2, "inputs": IMAGE.nbytes}
    assert run.counters.ddr_written == {"outputs": IMAGE.nbytes}
    assert run.counters.copied == 2 * 6 * 4 * 2
    assert run.hardware_ns == run.timeline.total
    assert run.firmware_ns == 5000


def test_runs_are_alike_from_several_threads() -> None:
    simulator = Simulator(made().binary(), PROFILE)
    expected = simulator.run([IMAGE]).raw[0]
    other = np.zeros_like(IMAGE)
    found: list[bool] = []

    def work() -> None:
        simulator.run([other])
        found.append(np.array_equal(simulator.run([IMAGE]).raw[0], expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
    assert simulator.latency.figures().runs == 9


def test_the_latency_of_no_run_is_zero_and_then_that_of_the_model() -> None:
    simulator = Simulator(made().binary(), PROFILE)
    assert simulator.latency.figures().hardware == (0, 0, 0)
    run = simulator.run([IMAGE])
    figures = simulator.latency.figures()
    assert figures.hardware == (run.hardware_ns,) * 3
    assert figures.firmware == (5000,) * 3


def test_a_binary_keeps_from_where_the_inputs_of_a_layer_are() -> None:
    told = made()
    told.layers[0] = replace(told.layers[0], origins=(-1, 0))
    assert Simulator(told.binary(), PROFILE, checked=True).program.layers[0].origins == (-1, 0)
    told.layers[0] = replace(told.layers[0], origins=(-2,))
    with pytest.raises(ProgramError, match=r"origin of layer 0 \(layer_0\) is -2, expected -1 to 0"):
        told.binary()


def test_a_damaged_binary_is_refused() -> None:
    binary = bytearray(made().binary())
    binary[9000] ^= 1
    with pytest.raises(BinaryError):
        Simulator(bytes(binary), PROFILE)


def test_a_damaged_program_is_refused_or_runs_within_its_memory() -> None:
    whole, ran, refused = made(), 0, 0
    code = encode_program(whole.program(), len(whole.weights))
    for place in range(len(code.main)):
        damaged = bytearray(code.main)
        damaged[place] ^= 1 << int(RANDOM.integers(8))
        try:
            program, _ = decode_program(code._replace(main=bytes(damaged)), CodeOffsets(0, 0, 0))
            TileMachine(program, whole.weights_bytes()).run(IMAGE.view(np.uint8).ravel())
            ran += 1
        except (BinaryError, ProgramError, SimulatorError):
            refused += 1
    assert ran > 0
    assert refused > 100


def test_a_checked_simulator_refuses_a_program_that_reads_what_was_never_written() -> None:
    broken = made()
    broken.stages[0] = replace(broken.stages[0], copies=broken.stages[0].copies[:1])
    Simulator(broken.binary(), PROFILE)
    with pytest.raises(StaleBytesError, match="on tile 1 reads is nothing in 48 bytes"):
        Simulator(broken.binary(), PROFILE, checked=True)
