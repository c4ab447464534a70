"""Devices that die and return while models are loaded: which plan runs use, and when other plans are released."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from nnhal.errors import HalError, TransportError
from nnhal.types import ErrorStatus, NetworkEvent
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.partition import Fallback, Pin
from tests.service.mortal import ACC, NPU, Bound, Site
from tests.support.picky import CPU
from tests.support.refusals import refusal
from tests.support.waiting import wait_until

ALL_ON_CPU = (Pin("op:ADD", CPU), Pin("op:TANH", CPU))


@pytest.fixture
def site(short_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(short_path, stack)


@pytest.mark.contract("FB-03", "FB-16")
@pytest.mark.parametrize("pins", [(), (Pin("op:TANH", NPU),)])
def test_runs_use_a_plan_without_the_device_until_it_is_back(site: Site, pins: tuple[Pin, ...]) -> None:
    loaded = site.load(Fallback.ALLOW, *pins)
    one, other = Bound(loaded), Bound(loaded)
    assert one.devices() == other.devices() == [ACC, NPU]
    site.npu.die()
    assert one.run().fell_back
    for bound in (one, other):
        bound.wait_for(ACC)
    assert loaded.prepared.devices == {ACC}
    assert loaded.original.devices == {ACC, NPU}
    (refusal, *_) = explanation_to_wire(loaded.prepared).operations[1].refusals
    assert (refusal.device, refusal.reason) == (NPU, "it is gone: the model is planned without it until it is back")
    assert Bound(loaded).devices() == [ACC]
    site.npu.start()
    for bound in (one, other):
        bound.wait_for(ACC, NPU)
    assert loaded.prepared is loaded.original


@pytest.mark.contract("FB-16")
def test_a_run_on_the_cpu_that_dies_ends_by_the_plan_without_it(site: Site) -> None:
    loaded = site.load(Fallback.ALLOW, *ALL_ON_CPU)
    one, other = Bound(loaded), Bound(loaded)
    assert one.devices() == other.devices() == [CPU]
    site.cpu.die()
    for bound in (one, other):
        report = bound.run()
        assert {step.device for step in report.steps} == {ACC, NPU}
    assert one.devices() == other.devices() == [ACC, NPU]
    site.cpu.start()
    for bound in (one, other):
        bound.wait_for(CPU)


@pytest.mark.slow
def test_if_the_cpu_dies_and_no_other_device_takes_the_model_the_error_names_the_cpu(site: Site) -> None:
    loaded = site.load(Fallback.ALLOW, *ALL_ON_CPU)
    bound = Bound(loaded)
    assert bound.devices() == [CPU]
    for device in (site.npu, site.acc, site.cpu):
        device.die()
    with pytest.raises((HalError, TransportError), match=CPU):
        bound.run()
    site.cpu.start()
    bound.wait_for(CPU)


def test_a_plan_that_is_no_longer_used_is_released(site: Site) -> None:
    loaded = site.load()
    bound = Bound(loaded)
    for _ in range(3):
        site.npu.die()
        bound.wait_for(ACC)
        site.npu.start()
        bound.wait_for(ACC, NPU)
    wait_until(lambda: site.acc.prepared_models() == 1, "acc has its step of the first plan only")
    loaded.close()
    for device in (site.npu, site.acc, site.cpu):
        assert device.prepared_models() == 0


def test_runs_go_on_while_the_new_plan_is_prepared(site: Site) -> None:
    loaded = site.load()
    bound, other = Bound(loaded), Bound(loaded)
    site.acc.may_prepare.clear()
    site.npu.die()
    site.acc.prepares.clear()
    assert bound.run().fell_back
    assert site.acc.prepares.wait(30)
    for _ in range(3):
        assert bound.run().fell_back
        assert other.run().fell_back
    site.acc.may_prepare.set()
    bound.wait_for(ACC)


def test_a_model_that_is_unloaded_during_re_planning_leaves_nothing_behind(site: Site) -> None:
    loaded = site.load()
    bound = Bound(loaded)
    site.acc.may_prepare.clear()
    site.npu.die()
    site.acc.prepares.clear()
    assert bound.run().fell_back
    assert site.acc.prepares.wait(30)
    loaded.close()
    with pytest.raises(HalError, match="unloaded"):
        bound.run()
    site.acc.may_prepare.set()
    wait_until(lambda: site.acc.prepared_models() == 0, "acc has nothing left")
    wait_until(lambda: len(set(site.acc.told.events.values())) == 1, "acc was notified of each event equally often")


@pytest.mark.contract("FB-10")
def test_without_fallback_the_error_names_the_device_until_it_is_back(site: Site) -> None:
    loaded = site.load(Fallback.DENY)
    bound = Bound(loaded)
    assert bound.devices() == [ACC, NPU]
    site.npu.die()
    for _ in range(3):
        with pytest.raises(TransportError, match="the model needs npu, which is gone"):
            bound.run()
    assert loaded.prepared is loaded.original
    site.npu.start()
    assert bound.devices() == [ACC, NPU]


def test_the_plan_adapts_to_several_devices_that_die_and_return(site: Site) -> None:
    bound = Bound(site.load())
    assert bound.devices() == [ACC, NPU]
    site.npu.die()
    site.acc.die()
    bound.run()
    bound.wait_for(CPU)
    site.acc.start()
    bound.wait_for(ACC)
    site.npu.start()
    bound.wait_for(ACC, NPU)


def test_devices_are_notified_once_of_a_network_that_they_take_over_or_get_back(site: Site) -> None:
    loaded = site.load()
    bound, other = Bound(loaded), Bound(loaded)
    site.acc.may_prepare.clear()  # no other plan is possible
    site.npu.die()
    for _ in range(2):
        assert bound.run().fell_back
        assert other.run().fell_back
    loading = {NetworkEvent.BEFORE_LOAD: 1, NetworkEvent.AFTER_LOAD: 1}
    assert site.cpu.told.events == loading
    site.npu.told.events.clear()
    site.npu.start()
    wait_until(lambda: bound.devices() == other.devices() == [ACC, NPU], "npu has its step again")
    assert site.npu.told.events == loading
    site.acc.may_prepare.set()
    loaded.close()
    unloading = {NetworkEvent.BEFORE_UNLOAD: 1, NetworkEvent.AFTER_UNLOAD: 1}
    assert site.npu.told.events == site.cpu.told.events == loading | unloading


def test_closing_does_not_wait_for_ever_and_memory_is_not_reused_while_a_run_goes_on(site: Site) -> None:
    loaded = site.load()
    bound = Bound(loaded)
    arena = loaded.arena_bytes
    assert arena > 0
    site.npu.may_run.clear()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(bound.context.run)
        assert site.npu.runs_now.wait(30)
        loaded.unbind(bound.context, drain_seconds=0)
        other = Bound(loaded)
        assert loaded.arena_bytes == 2 * arena
        site.npu.may_run.set()
        refusal(lambda: running.result(30), ErrorStatus.DEVICE_UNAVAILABLE, "the binding has been released")
    assert Bound(loaded).devices() == [ACC, NPU]
    assert loaded.arena_bytes == 2 * arena
    assert other.devices() == [ACC, NPU]


def test_a_withdrawn_device_is_left_until_it_is_restored(site: Site) -> None:
    loaded = site.load()
    bound = Bound(loaded)
    assert bound.devices() == [ACC, NPU]
    site.fleet.withdraw(NPU)
    loaded.avoid(NPU)
    loaded.settle(30)
    assert loaded.missing == {NPU} and not loaded.uses(NPU)
    assert bound.devices() == [ACC]
    (refusal, *_) = explanation_to_wire(loaded.prepared).operations[1].refusals
    assert (refusal.device, refusal.reason) == (
        NPU,
        "it drains: the model is planned without it until it is used again",
    )
    assert Bound(site.load()).devices() == [ACC]
    site.fleet.restore(NPU)
    bound.wait_for(ACC, NPU)
    assert loaded.prepared is loaded.original and loaded.uses(NPU)


def test_a_withdrawn_device_that_dies_and_returns_is_not_used(site: Site) -> None:
    loaded = site.load()
    bound = Bound(loaded)
    site.fleet.withdraw(NPU)
    loaded.avoid(NPU)
    loaded.settle(30)
    site.npu.die()
    assert bound.devices() == [ACC]
    site.npu.start()
    wait_until(lambda: not site.fleet.states()[0].trouble, "the device is back")
    assert bound.devices() == [ACC]
    site.fleet.restore(NPU)
    bound.wait_for(ACC, NPU)


def test_a_model_that_may_not_fall_back_keeps_a_withdrawn_device(site: Site) -> None:
    loaded = site.load(Fallback.DENY)
    bound = Bound(loaded)
    site.fleet.withdraw(NPU)
    loaded.avoid(NPU)
    loaded.settle(30)
    assert loaded.uses(NPU) and loaded.missing == frozenset()
    assert bound.devices() == [ACC, NPU]


def test_who_wants_to_know_is_told_of_each_plan_that_takes_the_place_of_another(site: Site) -> None:
    told: list[frozenset[str]] = []
    loaded = site.load()
    loaded.on_replanned(lambda without: told.append(frozenset(without)))
    site.fleet.withdraw(NPU)
    loaded.avoid(NPU)
    loaded.settle(30)
    site.fleet.restore(NPU)
    loaded.look()
    loaded.settle(30)
    assert told == [frozenset({NPU}), frozenset()]
