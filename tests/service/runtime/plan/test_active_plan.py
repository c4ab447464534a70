"""The plan in force, as devices come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.service.mortal import ACC, NPU, Bound, Site
from tests.support.waiting import wait_until


@pytest.fixture
def site(short_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(short_path, stack)


@pytest.mark.slow
def test_a_device_that_dies_each_time_that_it_prepares_a_model_is_left_out(site: Site) -> None:
    loaded, told = site.load(), list[str]()
    loaded.on_replanned(told.extend)
    bound = Bound(loaded)
    site.npu.die()
    bound.wait_for(ACC)
    for _ in range(4):
        die_preparing(site, bound)
    reason = f"{NPU}, which has died 4 times in a row while it prepared the model"
    wait_until(lambda: reason in told, "operators are told")
    site.npu.prepares.clear()
    site.npu.start()
    wait_until(lambda: site.fleet.is_there(NPU), "the device is back")
    for _ in range(3):
        loaded._plans.look(again=True)
        loaded._plans.settle(30)
        assert bound.devices() == [ACC]
    assert not site.npu.prepares.is_set()
    assert loaded.missing == {NPU}


def die_preparing(site: Site, bound: Bound) -> None:
    """Start a device, and end it when it prepares the model again."""
    site.npu.may_prepare.clear()
    site.npu.prepares.clear()
    site.npu.start()
    wait_until(lambda: bound.devices() == [ACC] and site.npu.prepares.is_set(), "the model is prepared again")
    dying = threading.Thread(target=site.npu.die)
    dying.start()
    wait_until(lambda: not site.fleet.is_there(NPU), "the device is gone")
    site.npu.may_prepare.set()
    dying.join()
