from __future__ import annotations

import gc

import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F16
from nnhal.types import ErrorStatus
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.mlip.driver import Mlip
from nnhal_devices.mlip.residence import OcmResidence
from nnhal_mlip.program.binary import MlipBinary
from tests.support.mlip_hal import mlip_examples

MANY = 8 * 64
"""More than one network for each page of each tile."""


class NetworkOwner:
    """Whatever keeps a network loaded."""


def binary(pinned: str) -> MlipBinary:
    driver = Mlip(DriverOptions(extra={"wb_pin_ocm": pinned}))
    (simulator,) = driver.prepare(mlip_examples(F16)["CONV_2D SAME"], PrepareOptions()).simulators
    return simulator.binary


def loaded(residence: OcmResidence, weights: MlipBinary) -> list[NetworkOwner]:
    """Load networks until there is no place for another one."""
    owners: list[NetworkOwner] = []
    with pytest.raises(HalError, match="weights cannot be pinned: a model wants") as caught:
        while len(owners) <= MANY:
            owner = NetworkOwner()
            residence.load([weights], owner)
            owners.append(owner)
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    return owners


def test_pinned_weights_keep_their_place_for_as_long_as_the_network_is_loaded() -> None:
    residence, weights = OcmResidence(), binary("true")
    owners = loaded(residence, weights)
    count = len(owners)
    assert count > 1
    del owners
    gc.collect()
    assert len(loaded(residence, weights)) == count


def test_networks_that_are_not_pinned_need_no_place() -> None:
    residence, weights = OcmResidence(), binary("false")
    owners = [NetworkOwner() for _ in range(MANY + 1)]
    for owner in owners:
        residence.load([weights], owner)


def test_several_binaries_of_a_network_are_placed_together_or_not_at_all() -> None:
    residence, weights = OcmResidence(), binary("true")
    count = len(loaded(residence, weights))
    gc.collect()
    with pytest.raises(HalError):
        residence.load([weights] * (count + 1), NetworkOwner())
    residence.load([weights] * count, owner := NetworkOwner())
    assert owner
