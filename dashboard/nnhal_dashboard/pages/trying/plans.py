"""By which plans a model is tried: its own, and perhaps a second one beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnhal_dashboard.world.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TriedPlan:
    """A plan by what it is made with; without pins and devices the model's own."""

    title: str
    pins: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


OWN_PLAN = TriedPlan("The model's plan")


@dataclass(frozen=True, slots=True)
class SecondPlan:
    """The fields for the second plan, as they were sent."""

    choice: str = ""
    """Empty for none, ``pins``, or ``device:NAME``."""
    pins: str = ""
    """A pin a line."""
    devices: tuple[str, ...] = ()
    """The devices that may be chosen."""

    @property
    def plan(self) -> TriedPlan | None:
        """The plan; None for none. Raises ValueError if a pin is none or a device is not known."""
        if not self.choice:
            return None
        if self.choice == "pins":
            pins = parse_pins(self.pins)
            return TriedPlan("With pins " + ", ".join(f"{match}={device}" for match, device in pins.items()), pins)
        kind, _, name = self.choice.partition(":")
        if kind != "device" or name not in self.devices:
            raise ValueError(f"the second plan is {self.choice!r}, expected one on {', '.join(self.devices)}, or pins")
        return TriedPlan(f"On {name} alone", devices=(name,))


def parse_pins(text: str) -> dict[str, str]:
    """Return pins from lines such as ``name:conv*=npu``. Raises ValueError."""
    pins = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        match, separator, device = line.rpartition("=")
        if not (match.strip() and separator and device.strip()):
            raise ValueError(f"the pin {line!r} is none, expected such as name:conv*=npu")
        pins[match.strip()] = device.strip()
    if not pins:
        raise ValueError("the second plan has no pins, expected a line such as name:conv*=npu")
    return pins


def device_names(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the names that devices have in plans."""
    if snapshot.framework is not None:
        return tuple(device.name for device in snapshot.framework.devices)
    return tuple(device.name for device in snapshot.devices)
