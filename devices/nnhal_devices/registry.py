"""Drivers by name: from this repository, from installed packages, and from files that are loaded at the start.

Listing the names imports no driver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeAlias

from nnhal.near_names import there_are
from nnhal_devices.driver import Driver, DriverOptions

DriverFactory: TypeAlias = Callable[[DriverOptions], Driver]

ENTRY_POINT_GROUP = "nnhal.drivers"
_BUILT_IN = {
    "cpu_acc": "nnhal_devices.cpu_acc.driver:CpuAcc",
    "cpu_ref": "nnhal_devices.cpu_ref.driver:CpuRef",
    "ethos_n": "nnhal_devices.ethos_n.driver:EthosN",
    "gpu_acc": "nnhal_devices.gpu_acc.driver:GpuAcc",
    "null": "nnhal_devices.null.driver:Null",
    "ort_ep": "nnhal_devices.ort_ep.driver:OrtEp",
    "remote": "nnhal_devices.remote.driver:Remote",
}


class BackendRegistry:
    """Factories of drivers by name. It is filled before threads start."""

    def __init__(self) -> None:
        self._factories: dict[str, DriverFactory] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._factories

    def names(self) -> list[str]:
        """The names of all drivers, sorted."""
        return sorted(self._factories)

    def register(self, name: str, factory: DriverFactory) -> None:
        """Add a factory; it is not called yet. Raises ValueError if the name is taken."""
        if name in self:
            raise ValueError(f"a driver is already called {name!r}")
        self._factories[name] = factory

    def create(self, name: str, options: DriverOptions) -> Driver:
        """Create a driver. Raises LookupError for an unknown name, and what the factory raises."""
        if name not in self:
            raise LookupError(f"no driver is called {name!r}; {there_are(name, self.names())}")
        return self._factories[name](options)


@cache
def registry() -> BackendRegistry:
    """The registry of this process, which starts with the built-in drivers and those of installed packages."""
    found = BackendRegistry()
    for name, target in _BUILT_IN.items():
        found.register(name, _imported(target))
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name not in found:
            found.register(point.name, _loaded(point.load))
    return found


def driver_names() -> list[str]:
    """The names of all drivers of this process, sorted."""
    return registry().names()


def create_driver(name: str, options: DriverOptions) -> Driver:
    """Create a driver. Raises LookupError for an unknown name, and what the driver's own module raises."""
    return registry().create(name, options)


def _imported(target: str) -> DriverFactory:
    module, _, attribute = target.partition(":")
    return _loaded(lambda: getattr(import_module(module), attribute))


def _loaded(load: Callable[[], DriverFactory]) -> DriverFactory:
    """A factory that is imported when it is first called."""
    return lambda options: load()(options)
