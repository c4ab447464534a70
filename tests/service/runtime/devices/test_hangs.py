"""Facts about devices that runs wait for."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_hosting.spare_descriptor import FOR_LOOKS, SpareDescriptor
from nnhal_service.runtime.devices.hangs import AwaitedDevice, DeviceWait, HangWatch, answers
from tests.support.busy import slow_down, spinning
from tests.support.process_limits import apart, no_descriptors
from tests.support.processes import device_process
from tests.support.waiting import stop, wait_until


class SilentDevice:
    """A device whose process takes connections and answers nothing, while it prepares a model."""

    gone = is_asleep = False
    is_preparing = True
    pid = os.getpid()

    def __init__(self, directory: Path) -> None:
        self.endpoint = Endpoint(directory)


class Run:
    """A run that has waited for a device."""

    def __init__(self, device: SilentDevice) -> None:
        self._device = AwaitedDevice("npu", cast(RemoteDevice, device), False, waited_seconds=7.0)

    def awaited(self) -> Iterable[AwaitedDevice]:
        return [self._device]

    def stop_if_it_hangs(self, seconds: float) -> None:
        """Go on."""


def test_a_device_that_is_waited_for_and_does_not_answer_is_known_until_nothing_waits(short_path: Path) -> None:
    device = SilentDevice(short_path)
    remote = cast(RemoteDevice, device)
    noted: list[Any] = []
    watch = HangWatch(1.0, lambda *words: noted.append(words))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(device.endpoint.link))
        listener.listen()
        run = Run(device)
        assert watch.wait_of("npu", remote) == DeviceWait()
        watch.add(run)
        wait_until(lambda: watch.wait_of("npu", remote).silent > 0, "it is silent")
        assert watch.wait_of("npu", remote).waited == 7.0
        assert watch.wait_of("gpu", None) == DeviceWait()
        del run
        wait_until(lambda: watch.wait_of("npu", remote).waited == 0, "nothing waits for it")
        device.gone = True
        watch.close()
    assert noted == []


def test_a_device_that_waits_for_a_processor_is_not_taken_for_one_that_hangs(short_path: Path) -> None:
    with (
        device_process("null", short_path) as (child, endpoint),
        RemoteDevice(endpoint) as remote,
        spinning(6),
    ):
        slow_down(child.pid)
        assert answers(remote, 0.1, SpareDescriptor())


def test_a_device_that_was_stopped_does_not_answer(short_path: Path) -> None:
    with device_process("null", short_path) as (child, endpoint), RemoteDevice(endpoint) as remote:
        stop(child.pid)
        assert not answers(remote, 0.1, SpareDescriptor())
        os.kill(child.pid, signal.SIGCONT)


def test_a_device_that_cannot_be_asked_is_not_taken_for_one_that_hangs(short_path: Path) -> None:
    apart(ask_without_descriptors, short_path, kept=False)


def test_a_device_is_asked_with_a_descriptor_in_reserve(short_path: Path) -> None:
    apart(ask_without_descriptors, short_path, kept=True)


def ask_without_descriptors(directory: Path, *, kept: bool) -> None:
    spare = SpareDescriptor()
    if kept:
        spare.keep()
        FOR_LOOKS.keep()
    with device_process("null", directory) as (child, endpoint), RemoteDevice(endpoint) as remote:
        stop(child.pid)
        with no_descriptors():
            assert answers(remote, 0.1, spare) != kept
        os.kill(child.pid, signal.SIGCONT)
