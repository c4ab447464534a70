"""Accelerators by name."""

from __future__ import annotations

import pytest

from nnhal_cascade.hardware.accelerators import ACCELERATORS, accelerator


@pytest.mark.parametrize("name", ACCELERATORS)
def test_a_unit_of_all_cores_makes_the_multiply_adds_of_a_cycle(name: str) -> None:
    found = accelerator(name)
    # Each element of a unit is the sum of eight products.
    assert found.block_unit.elements * 8 * found.cores == found.macs == int(name.rpartition("-")[2])


def test_an_unknown_accelerator_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(ValueError, match=r"unknown accelerator 'u85-256': expected one of u55-32, .*u65-512"):
        accelerator("u85-256")
