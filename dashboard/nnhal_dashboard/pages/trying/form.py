"""The form of a model: its inputs, how long its runs may take, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import FormData

from nnhal.extensions.values import Value
from nnhal.tensors import Tensor
from nnhal_dashboard.pages.trying.fields import InputFields, fields_of
from nnhal_dashboard.pages.trying.given import value_of

_MOST_SECONDS = 600
_MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class TrialForm:
    """Fields that were sent, or those of a new form."""

    inputs: Sequence[InputFields]
    seconds: str = "30"
    runs: str = "3"

    @property
    def deadline_seconds(self) -> float:
        """Return how long all runs may take together. Raises ValueError."""
        return _number("the deadline", self.seconds, 0.001, _MOST_SECONDS, "seconds")

    @property
    def run_count(self) -> int:
        """Return how often it runs. Raises ValueError."""
        count = _number("the number of runs", self.runs, 1, _MOST_RUNS, "runs")
        if count != int(count):
            raise ValueError(f"the number of runs is {self.runs!r}, expected a whole number")
        return int(count)

    def values(self) -> tuple[dict[str, Value], dict[int, str]]:
        """Return the values of inputs by name, and what is wrong with others by number."""
        values, problems = {}, {}
        for fields in self.inputs:
            try:
                values[fields.tensor.name] = value_of(fields)
            except ValueError as error:
                problems[fields.number] = str(error)
        return values, problems


def first_form(tensors: Sequence[Tensor]) -> TrialForm:
    return TrialForm(fields_of(tensors, None))


def sent_form(tensors: Sequence[Tensor], form: FormData) -> TrialForm:
    return TrialForm(fields_of(tensors, form), str(form.get("seconds", "")), str(form.get("runs", "")))


def _number(what: str, text: str, low: float, high: float, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise ValueError(f"{what} is {text!r}, expected {low:g} to {high:g} {unit}")
    return number
