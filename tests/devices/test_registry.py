from __future__ import annotations

import subprocess
import sys

import pytest

from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_devices.registry import BackendRegistry, create_driver, driver_names


def test_the_drivers_of_this_repository_are_known() -> None:
    assert {"cpu_acc", "cpu_ref", "ethos_n", "ethos_u", "gpu_acc", "mlip", "null"} <= set(driver_names())
    assert isinstance(create_driver("cpu_ref", DriverOptions()), CpuRef)


def test_listing_imports_no_driver() -> None:
    code = (
        "import sys; from nnhal_devices.registry import driver_names; driver_names(); "
        "sys.exit(any(name.endswith('.driver') and name != 'nnhal_devices.driver' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_registered_factory_makes_drivers_under_its_name() -> None:
    registry = BackendRegistry()
    registry.register("b", CpuRef)
    registry.register("a", CpuRef)
    assert registry.names() == ["a", "b"]
    assert "a" in registry
    assert "c" not in registry
    assert registry.create("a", DriverOptions()) is not registry.create("a", DriverOptions())


def test_a_name_is_given_once() -> None:
    registry = BackendRegistry()
    registry.register("a", CpuRef)
    with pytest.raises(ValueError, match="a driver is already called 'a'"):
        registry.register("a", CpuRef)


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    registry = BackendRegistry()
    registry.register("b", CpuRef)
    registry.register("a", CpuRef)
    with pytest.raises(LookupError, match="no driver is called 'c'; there are a, b"):
        registry.create("c", DriverOptions())
