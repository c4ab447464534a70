"""Preparations by drivers that refuse by themselves what they do not support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import ErrorStatus
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Driver, DriverOptions, PrepareOptions, Workload
from nnhal_devices.host.sessions.hosted_device import HostedDevice, Preparation
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_devices.host.settings import DeviceSettings
from tests.support.additions import addition_model
from tests.support.device_trials import Nobody
from tests.support.refusals import refusal

UNSUPPORTED = r"operation 0 \(ADD\) is not supported by cpu_ref: OP"
NO_ADD = Unsupported("OP", "ADD", "anything else")
BROKEN = HalError(ErrorStatus.GENERAL_FAILURE, "it does not compile")


class Refusing:
    """A driver that foresees an answer, and gives another one if it is asked."""

    def __init__(self, foreseen: Support | None, answer: Support, failure: HalError | None = None) -> None:
        self._driver = CpuRef(DriverOptions())
        self._foreseen, self._answer, self._failure = foreseen, answer, failure
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def foreseen_support(self, model: ResolvedModel) -> Sequence[Support] | None:
        return None if self._foreseen is None else [self._foreseen]

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        self.asked += 1
        return [self._answer]

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        if self._failure is not None:
            raise self._failure
        return self._driver.prepare(model, options)


def prepare(driver: Refusing) -> object:
    device = HostedDevice(cast(Driver, driver), DeviceSettings())
    return device.launch(ValidModel.of(addition_model()), Preparation(), Nobody())()


def test_what_a_driver_foresees_is_enough_to_prepare_a_model() -> None:
    driver = Refusing(SUPPORTED, SUPPORTED)
    prepare(driver)
    assert driver.asked == 0


def test_a_driver_that_foresees_nothing_is_asked() -> None:
    driver = Refusing(None, SUPPORTED)
    prepare(driver)
    assert driver.asked == 1


def test_what_is_foreseen_not_to_be_supported_is_refused() -> None:
    driver = Refusing(NO_ADD, SUPPORTED)
    refusal(
        lambda: prepare(driver), ErrorStatus.INVALID_ARGUMENT, r"operation 0 \(ADD\) is not supported by cpu_ref: OP"
    )
    assert driver.asked == 0


def test_if_compiling_fails_the_client_is_told_what_is_not_supported() -> None:
    driver = Refusing(SUPPORTED, NO_ADD, BROKEN)
    refusal(
        lambda: prepare(driver), ErrorStatus.INVALID_ARGUMENT, r"operation 0 \(ADD\) is not supported by cpu_ref: OP"
    )


@pytest.mark.parametrize("foreseen", [SUPPORTED, None])
def test_if_all_is_supported_the_client_is_told_why_compiling_fails(foreseen: Support | None) -> None:
    driver = Refusing(foreseen, SUPPORTED, BROKEN)
    refusal(lambda: prepare(driver), ErrorStatus.GENERAL_FAILURE, "it does not compile")
    assert driver.asked == 1
