"""Plans that are ready for the death of a device: runs go on by them though no device can prepare anything."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from nnhal_service.partition import Fallback, Pin
from nnhal_service.runtime import Fleet, LoadedModel, Substitutes
from tests.service.mortal import ACC, NPU, Bound, Site
from tests.support.picky import CPU
from tests.support.waiting import wait_until

ROOM = 1 << 20
ONE = 256 << 10
"""What a substitute of a model without constants counts."""
ON_CPU_AND_NPU = (Pin("op:ADD", CPU),)


@pytest.fixture
def site(short_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(short_path, stack)


@pytest.fixture
def substitutes() -> Iterator[Substitutes]:
    with closing(Substitutes(ROOM)) as store:
        yield store


def insured(site: Site, substitutes: Substitutes, *pins: Pin) -> LoadedModel:
    """Load the model, and wait until it has a substitute for each of its two devices."""
    loaded = site.load(Fallback.ALLOW, *pins)
    loaded.insure(substitutes)
    wait_until(lambda: loaded.substitute_bytes == 2 * ONE, "the substitutes are prepared")
    return loaded


def prepare_nothing(site: Site) -> None:
    """From now on no device prepares anything."""
    for device in (site.npu, site.acc, site.cpu):
        device.may_prepare.clear()


@pytest.fixture
def gates(site: Site) -> Iterator[None]:
    """Let devices prepare in the end."""
    yield
    for device in (site.npu, site.acc, site.cpu):
        device.may_prepare.set()


@pytest.mark.usefixtures("gates")
def test_when_a_device_dies_runs_go_on_by_a_plan_that_is_there(site: Site, substitutes: Substitutes) -> None:
    loaded = insured(site, substitutes)
    one, other = Bound(loaded), Bound(loaded)
    assert one.devices() == other.devices() == [ACC, NPU]
    prepare_nothing(site)
    site.npu.die()
    report = one.run()
    assert (report.fell_back, report.failed_devices) == (True, (NPU,))
    assert one.devices() == other.devices() == [ACC]
    assert loaded.missing == {NPU}


@pytest.mark.usefixtures("gates")
def test_the_death_of_the_fallback_device_is_such_a_death(site: Site, substitutes: Substitutes) -> None:
    loaded = insured(site, substitutes, *ON_CPU_AND_NPU)
    bound = Bound(loaded)
    assert bound.devices() == [CPU, NPU]
    prepare_nothing(site)
    site.cpu.die()
    assert bound.run().failed_devices == (CPU,)
    assert bound.devices() == [ACC, NPU]


def test_the_original_plan_is_used_again_and_the_substitutes_stay(site: Site, substitutes: Substitutes) -> None:
    loaded = insured(site, substitutes)
    bound = Bound(loaded)
    for _ in range(3):
        site.npu.die()
        bound.wait_for(ACC)
        site.npu.start()
        bound.wait_for(ACC, NPU)
    assert loaded.prepared is loaded.original
    assert loaded.substitute_bytes == 2 * ONE


@pytest.mark.slow
@pytest.mark.usefixtures("gates")
def test_a_substitute_that_died_with_a_device_is_prepared_again(site: Site, substitutes: Substitutes) -> None:
    bound = Bound(insured(site, substitutes))
    held = site.acc.prepared_models()
    site.acc.die()
    bound.run()
    site.acc.start()
    wait_until(lambda: site.acc.prepared_models() == held, "acc has its part of the plan without npu again")
    bound.wait_for(ACC, NPU)
    prepare_nothing(site)
    site.npu.die()
    bound.run()
    assert bound.devices() == [ACC]


@pytest.mark.slow
def test_substitutes_are_made_for_the_plan_without_a_device_that_drains(site: Site, substitutes: Substitutes) -> None:
    loaded = insured(site, substitutes)
    site.fleet.withdraw(NPU)
    loaded.avoid(NPU)
    wait_until(lambda: loaded.substitute_bytes == ONE, "there is one for acc, the only device of the plan")
    bound = Bound(loaded)
    assert bound.devices() == [ACC]
    site.acc.die()
    bound.run()
    assert bound.devices() == [CPU]
    site.acc.start()
    site.fleet.restore(NPU)
    bound.wait_for(ACC, NPU)
    wait_until(lambda: loaded.substitute_bytes == 2 * ONE, "there are those of the model's own plan")


def test_substitutes_are_released_with_the_model(site: Site, substitutes: Substitutes) -> None:
    loaded = insured(site, substitutes)
    assert site.cpu.prepared_models() > 0
    assert not substitutes.take(ROOM)
    loaded.close()
    for device in (site.npu, site.acc, site.cpu):
        assert device.prepared_models() == 0
    assert substitutes.take(ROOM)


def test_without_room_a_model_is_planned_again_when_a_device_dies(site: Site) -> None:
    with closing(Substitutes(ONE)) as small:
        one, other = site.load(), site.load()
        one.insure(small)
        other.insure(small)
        wait_until(lambda: one.substitute_bytes + other.substitute_bytes == ONE, "there is room for one")
        first, second = Bound(one), Bound(other)
        site.npu.die()
        first.wait_for(ACC)
        second.wait_for(ACC)


def test_a_model_that_may_not_fall_back_has_none(site: Site, substitutes: Substitutes) -> None:
    denied = site.load(Fallback.DENY)
    denied.insure(substitutes)
    allowed = insured(site, substitutes)
    assert (denied.substitute_bytes, allowed.substitute_bytes) == (0, 2 * ONE)


def test_a_run_waits_for_no_device_if_others_can_do_without_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = Bound(site.load(Fallback.ALLOW, *ON_CPU_AND_NPU))
    assert bound.devices() == [CPU, NPU]
    site.cpu.die()

    def awaited(*_: object) -> None:
        raise AssertionError("a run or a plan waits for a device without a process")

    monkeypatch.setattr(Fleet, "awaited", awaited)
    assert bound.run().failed_devices == (CPU,)
    assert bound.devices() == [ACC, NPU]


def test_a_run_waits_for_the_fallback_device_if_there_is_no_other(site: Site) -> None:
    bound = Bound(site.load(Fallback.ALLOW, Pin("op:ADD", CPU), Pin("op:TANH", CPU)))
    assert bound.devices() == [CPU]
    for device in (site.npu, site.acc, site.cpu):
        device.die()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(bound.run)
        site.cpu.start()
        running.result(30)
