"""The form of a model: its inputs, how long its runs may take, how many there are, and by which plans it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.datastructures import FormData, QueryParams

from nnhal.extensions.values import Value
from nnhal.tensors import Tensor
from nnhal_dashboard.pages.trying.fields import InputFields, fields_of
from nnhal_dashboard.pages.trying.given import value_of
from nnhal_pages.operating.snapshot import Snapshot


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
    for line in filter(None, map(str.strip, text.split("\n"))):
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


_MOST_SECONDS = 600
_MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class TrialForm:
    """What was sent, or what is there at first."""

    inputs: Sequence[InputFields]
    second: SecondPlan
    seconds: str = "30"
    runs: str = "3"

    @property
    def deadline_seconds(self) -> float:
        """How long the runs of a plan may take. Raises ValueError."""
        return _number("the deadline", self.seconds, 0.001, _MOST_SECONDS, "seconds")

    @property
    def run_count(self) -> int:
        """How often each plan runs. Raises ValueError."""
        count = _number("the number of runs", self.runs, 1, _MOST_RUNS, "runs")
        if count != int(count):
            raise ValueError(f"the number of runs is {self.runs!r}, expected a whole number")
        return int(count)

    @property
    def plans(self) -> list[TriedPlan]:
        """The model's own plan, and the second one if one is asked for. Raises ValueError."""
        second = self.second.plan
        return [OWN_PLAN] if second is None else [OWN_PLAN, second]

    def values(self) -> tuple[dict[str, Value], dict[int, str]]:
        """Return the values of inputs by name, and what is wrong with others by number."""
        values, problems = {}, {}
        for fields in self.inputs:
            try:
                values[fields.tensor.name] = value_of(fields)
            except ValueError as error:
                problems[fields.number] = str(error)
        return values, problems


def first_form(tensors: Sequence[Tensor], query: QueryParams, devices: tuple[str, ...]) -> TrialForm:
    """Return the form as it is at first: with pins of the query for the second plan."""
    pins = query.getlist("pin")
    return TrialForm(fields_of(tensors, None), SecondPlan("pins" if pins else "", "\n".join(pins), devices))


def sent_form(tensors: Sequence[Tensor], form: FormData, devices: tuple[str, ...]) -> TrialForm:
    second = SecondPlan(str(form.get("second", "")), str(form.get("pins", "")), devices)
    return TrialForm(fields_of(tensors, form), second, str(form.get("seconds", "")), str(form.get("runs", "")))


def _number(what: str, text: str, low: float, high: float, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise ValueError(f"{what} is {text!r}, expected {low:g} to {high:g} {unit}")
    return number
