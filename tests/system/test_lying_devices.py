"""Devices that do wrong on the wire: each run has the right outputs all the same, and the log says what was wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal_client import Binding, Framework, RunReport, aio
from tests.support.foreign.faults import FaultName
from tests.support.foreign.process import ForeignDevice
from tests.support.foreign_system import ELEMENTS, UNWIRED, WIRED, ForeignSystem, doubling_on, doublings, foreign_system
from tests.support.waiting import wait_until

WAYS = {
    "direct run": (WIRED[:1], True),
    "direct chain": (WIRED, True),
    "burst": (WIRED[:1], False),
    "chain": (WIRED, False),
    "launches": ((UNWIRED, *WIRED), False),
}
"""The devices of the steps, and whether the client runs them directly."""
every_way = pytest.mark.parametrize("way", WAYS)
ways_with_results = pytest.mark.parametrize("way", [way for way in WAYS if way != "launches"])
"""A launch is answered before it is executed."""


@pytest.fixture(scope="module")
def system(cpu_ref: Endpoint) -> Iterator[ForeignSystem]:
    with foreign_system(cpu_ref) as started:
        yield started


@pytest.fixture
def framework(system: ForeignSystem) -> Iterator[Framework]:
    with system.connect() as session:
        yield session
    system.behave()


def bound(framework: Framework, way: str) -> Binding:
    names, direct = WAYS[way]
    binding = doubling_on(framework, *names).bind(direct=direct)
    assert run(binding, way, 1).direct is direct
    return binding


def liar(system: ForeignSystem, way: str) -> ForeignDevice:
    return system.devices[WAYS[way][0][-1]]


def run(binding: Binding, way: str, value: float) -> RunReport:
    binding.inputs["input0"][...] = value
    binding.outputs["output0"][...] = np.nan
    report = binding.run()
    assert binding.outputs["output0"].tolist() == [value * 2 ** len(WAYS[way][0])] * ELEMENTS
    return report


@every_way
def test_an_answer_that_comes_twice_is_not_taken_for_that_of_the_next_call(
    system: ForeignSystem, framework: Framework, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    with bound(framework, way) as binding, caplog.at_level(logging.WARNING):
        device, before = liar(system, way), len(system.framework.said())
        device.fail("dawdles")
        device.fail("answers twice", 1)
        for number in range(2, 6):
            run(binding, way, number)
        wait_until(lambda: not run(binding, way, 7).fell_back, "the steps run on their devices again")
        assert "the other side has answered call" in caplog.text + system.framework.said()[before:]


@pytest.mark.parametrize("way", ["direct chain", "chain"])
def test_a_stage_that_rings_twice_ends_its_chain(system: ForeignSystem, framework: Framework, way: str) -> None:
    with bound(framework, way) as binding:
        system.devices["last"].fail("dawdles")
        system.devices["first"].fail("rings twice", 1)
        for number in range(2, 6):
            run(binding, way, number)
        wait_until(lambda: not run(binding, way, 7).fell_back, "the steps run on their devices again")


@pytest.mark.parametrize("names", [WIRED[:1], WIRED], ids=["one step", "chain"])
def test_an_answer_that_comes_twice_is_not_taken_for_that_of_the_next_call_in_an_event_loop(
    system: ForeignSystem, framework: Framework, names: tuple[str, ...]
) -> None:
    device = system.devices[names[-1]]

    async def scenario() -> None:
        async with aio.connect(system.directory) as session:
            assert isinstance(session, aio.AsyncFramework)
            pins = {f"name:operation{number}": name for number, name in enumerate(names)}
            model = await session.load_model(doublings(len(names)), pins=pins)
            async with await model.bind() as binding:
                for number in range(6):
                    binding.inputs["input0"][...] = number
                    binding.outputs["output0"][...] = np.nan
                    report = await binding.run()
                    assert binding.outputs["output0"].tolist() == [number * 2 ** len(names)] * ELEMENTS
                    if number == 1:
                        assert report.direct
                        device.fail("dawdles")
                        device.fail("answers twice", 1)
                assert not report.direct

    asyncio.run(scenario())


@ways_with_results
def test_an_answer_that_is_repeated_after_the_next_call_is_told_by_its_number(
    system: ForeignSystem, framework: Framework, way: str
) -> None:
    with bound(framework, way) as binding:
        device = liar(system, way)
        device.fail("dawdles")
        device.fail("repeats the answer before", 1)
        for number in range(2, 6):
            run(binding, way, number)
        wait_until(lambda: not run(binding, way, 7).fell_back, "the steps run on their devices again")


@ways_with_results
@pytest.mark.parametrize("fault", ["answers insufficient", "answers nothing", "does not fit"])
def test_an_output_of_known_size_that_is_said_not_to_be_there_is_computed_elsewhere(
    system: ForeignSystem, framework: Framework, way: str, fault: FaultName
) -> None:
    with bound(framework, way) as binding:
        liar(system, way).fail(fault)
        for number in range(2, 5):
            assert run(binding, way, number).fell_back
        system.behave()
        assert not run(binding, way, 6).fell_back


def in_turn(system: ForeignSystem, framework: Framework) -> Binding:
    """Steps over bursts, since one device cannot be wired and gives no channel for launches."""
    device = system.devices[UNWIRED]
    device.fail("no socket", 1)
    binding = doubling_on(framework, UNWIRED, *WIRED).bind(direct=False)
    assert "the steps run in turn" in system.framework.said()
    return binding


def test_a_value_between_steps_that_is_said_not_to_fit_is_computed_elsewhere(
    system: ForeignSystem, framework: Framework
) -> None:
    with in_turn(system, framework) as binding:
        system.devices[UNWIRED].fail("does not fit")
        for number in range(2, 5):
            assert run(binding, "launches", number).fell_back
        system.behave()
        assert not run(binding, "launches", 6).fell_back


def test_steps_in_turn_run_on_their_devices_again_after_a_burst_was_closed(
    system: ForeignSystem, framework: Framework
) -> None:
    with in_turn(system, framework) as binding:
        for name in (UNWIRED, *WIRED):
            assert not run(binding, "launches", 1).fell_back
            system.devices[name].fail("closes the channel", 1)
            run(binding, "launches", 2)
            assert not run(binding, "launches", 3).fell_back


@every_way
def test_a_channel_that_is_closed_is_opened_again_by_a_device_that_lives(
    system: ForeignSystem, framework: Framework, way: str
) -> None:
    with bound(framework, way) as binding:
        liar(system, way).fail("closes the channel", 2)
        for number in range(2, 5):
            run(binding, way, number)
        wait_until(lambda: not run(binding, way, 7).fell_back, "the steps run on their devices again")


@every_way
def test_a_device_whose_channels_are_no_sockets_is_loaded_and_runs(
    system: ForeignSystem, framework: Framework, way: str
) -> None:
    names, direct = WAYS[way]
    for device in system.devices.values():
        device.fail("no socket")
    with doubling_on(framework, *names).bind(direct=direct) as binding:
        for number in range(3):
            report = run(binding, way, number)
            assert not report.fell_back
            assert report.direct is (way == "direct chain")  # a chain's sockets are the framework's own
    if len(names) == 1:
        assert "run by calls over gRPC" in system.framework.said()


@pytest.mark.parametrize("fault", ["gives no fence", "signals early", "fails without a fence"])
@pytest.mark.parametrize("name", [UNWIRED, *WIRED])
def test_what_a_launch_writes_is_not_taken_before_its_device_says_that_it_has_ended(
    system: ForeignSystem, framework: Framework, name: str, fault: FaultName
) -> None:
    with bound(framework, "launches") as binding:
        device = system.devices[name]
        device.fail("dawdles")
        device.fail(fault)
        for number in range(2, 5):
            run(binding, "launches", number)
        system.behave()
        wait_until(lambda: not run(binding, "launches", 7).fell_back, "the steps run on their devices again")


@pytest.mark.parametrize("names", [WIRED[:1], (UNWIRED, *WIRED)], ids=["one step", "several"])
def test_a_device_that_does_not_number_its_answers_is_run_without_channels(
    cpu_ref: Endpoint, names: tuple[str, ...]
) -> None:
    with foreign_system(cpu_ref, names, numbers=False) as system, system.connect() as framework:
        for device in system.devices.values():
            device.fail("dawdles")
            device.fail("answers twice")
        with doubling_on(framework, *names).bind() as binding:
            for number in range(4):
                binding.inputs["input0"][...] = number
                report = binding.run()
                assert binding.outputs["output0"].tolist() == [number * 2 ** len(names)] * ELEMENTS
                assert not (report.direct or report.fell_back)
