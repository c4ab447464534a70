"""Drivers by name: those of this repository, and those that installed packages register.

Listing them imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from nnhal_devices.driver import Driver, DriverOptions

ENTRY_POINT_GROUP = "nnhal.drivers"
_BUILT_IN = {
    "cpu_acc": "nnhal_devices.cpu_acc.driver:CpuAcc",
    "cpu_ref": "nnhal_devices.cpu_ref.driver:CpuRef",
    "null": "nnhal_devices.null.driver:Null",
}


def driver_names() -> list[str]:
    """The names that ``create_driver`` knows."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def create_driver(name: str, options: DriverOptions) -> Driver:
    """A new driver. Raises LookupError for an unknown name, and what the driver's own module raises."""
    target = _BUILT_IN.get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        factory: Callable[[DriverOptions], Driver] = getattr(import_module(module), attribute)
        return factory(options)
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        factory = point.load()
        return factory(options)
    raise LookupError(f"no driver is called {name!r}; there are {', '.join(driver_names())}")
