"""Models that may contradict themselves: the vectors' models with one thing changed, on every device in this process.

Either validation refuses such a model, the same on every device; or a device supports it, prepares it, and executes it
with results of the declared dimensions, the same as those of cpu_ref. NNHAL_CONFORMANCE has the vectors.
NNHAL_ALTERATIONS is how many changes of each form of an operation are tried, or "all": those take about half an hour.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nnhal.errors import HalError
from nnhal_devices.driver import DriverOptions
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_devices.host.settings import DeviceSettings
from nnhal_devices.registry import registry
from nnhal_tools.cases.case import Case
from tests.conformance.altered_vectors import Alteration, alterations
from tests.conformance.vectors import NEEDS_VECTORS, smallest_by_form
from tests.support.device_trials import Trial, attempt, objection
from tests.support.refusals import INVALID

pytestmark = NEEDS_VECTORS
_CHOICE = os.environ.get("NNHAL_ALTERATIONS", "2")
_REFERENCE = "cpu_ref"


@dataclass(frozen=True)
class ValidAlteration:
    """An altered vector that is valid nevertheless, and what the reference device makes of it."""

    name: str
    vector: Case
    model: ValidModel
    is_extreme: bool
    reference: Trial


def hosted(driver: str) -> HostedDevice:
    return HostedDevice(registry().create(driver, DriverOptions()), DeviceSettings())


def chosen() -> Iterator[tuple[Case, Alteration]]:
    """Yield some changes of each form of each operation, always the same ones."""
    generator = random.Random(18)
    for vector in smallest_by_form().values():
        every = list(alterations(vector))
        some = every if _CHOICE == "all" else generator.sample(every, min(int(_CHOICE), len(every)))
        yield from ((vector, alteration) for alteration in some)


@pytest.fixture(scope="module")
def valid() -> list[ValidAlteration]:
    """Return the changed models that are valid. Others are INVALID_ARGUMENT, which no device is asked about."""
    reference, found, invalid = hosted(_REFERENCE), [], 0
    for vector, alteration in chosen():
        name, altered = f"{vector.name}: {alteration.what}", alteration.make()
        try:
            model = ValidModel.of(altered.model)
        except HalError as error:
            assert error.status == INVALID, f"{name}: {error}"
            invalid += 1
            continue
        trial = attempt(reference, model, altered)
        found.append(ValidAlteration(name, altered, model, alteration.is_extreme, trial))
    assert invalid > len(found) / 4
    return found


def test_a_valid_model_is_executed_or_fails_for_what_only_values_tell(valid: list[ValidAlteration]) -> None:
    wrong = [(a.name, objection(a.model, a.reference, a.reference, a.is_extreme)) for a in valid]
    assert [entry for entry in wrong if entry[1]] == []
    assert sum(bool(a.reference.outputs) for a in valid) > len(valid) / 2


@pytest.mark.parametrize("driver", ["cpu_acc", "gpu_acc", "ethos_n", "ethos_u", "mlip"])
def test_a_device_agrees_with_the_reference_about_every_model_that_it_supports(
    valid: list[ValidAlteration], driver: str
) -> None:
    device, wrong, counts = hosted(driver), [], Counter[bool]()
    for a in valid:
        trial = attempt(device, a.model, a.vector)
        counts[bool(trial.outputs)] += 1
        if message := objection(a.model, trial, a.reference, a.is_extreme):
            wrong.append((a.name, message))
    assert wrong == []
    assert counts[True]
