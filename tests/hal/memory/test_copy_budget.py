from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.memory import CopyBudget, read_pools
from nnhal.memory.mmap_fd import create_file


@pytest.fixture
def budget() -> CopyBudget:
    return CopyBudget(1000, "NNHAL_LIMIT")


def test_memory_counts_until_its_last_view_is_gone(budget: CopyBudget) -> None:
    memory = budget.allocate(600, "a copy")
    view = memory[10:20]
    del memory
    assert budget.held == 600
    with pytest.raises(HalError) as caught:
        budget.allocate(401, "another copy")
    assert caught.value.message == (
        "another copy takes 401 bytes; this process holds 600 of the 1000 that it may have at present, and all clients "
        "together hold 600 of 1000 (NNHAL_LIMIT)"
    )
    del view
    assert budget.held == 0
    budget.allocate(1000, "another copy")


def test_what_is_charged_for_an_object_or_a_while_is_given_back(budget: CopyBudget) -> None:
    class Owner:
        """Owner of memory."""

    owner = Owner()
    budget.charge_for(owner, 300, "constants")
    with budget.taken(700, "a file"):
        assert budget.held == 1000
    del owner
    assert budget.held == 0


def test_a_sparse_file_as_large_as_a_disk_is_not_read(budget: CopyBudget, tmp_path: object) -> None:
    sparse = create_file(f"{tmp_path}/sparse", 1 << 40)
    with pytest.raises(
        HalError,
        match="a copy of pool 0, whose file may shrink, takes 1099511627776 bytes; this",
    ):
        read_pools([sparse], copies=budget)
    assert budget.held == 0
