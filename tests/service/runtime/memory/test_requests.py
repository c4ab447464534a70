"""The order of steps that use the same memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_service.runtime.memory.requests import Access, dependencies


def reads(start: int, end: int, pool: int = 0) -> Access:
    return Access(pool, start, end, is_write=False)


def writes(start: int, end: int, pool: int = 0) -> Access:
    return Access(pool, start, end, is_write=True)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([[writes(0, 4)], [reads(0, 4), writes(4, 8)], [reads(4, 8)]], [(), (0,), (1,)], id="a chain"),
        pytest.param([[writes(0, 4)], [writes(4, 8)], [reads(0, 8)]], [(), (), (0, 1)], id="two branches that join"),
        pytest.param([[reads(0, 4)], [reads(0, 4)]], [(), ()], id="readers of the same bytes"),
        pytest.param([[reads(0, 4)], [writes(2, 6)]], [(), (0,)], id="bytes that are used again after they were read"),
        pytest.param(
            [[writes(0, 4)], [writes(3, 6)]], [(), (0,)], id="bytes that are used again after they were written"
        ),
        pytest.param([[writes(0, 4)], [writes(4, 6)]], [(), ()], id="neighbours"),
        pytest.param([[writes(0, 4)], [writes(0, 4, pool=1)]], [(), ()], id="the same range of another pool"),
        pytest.param(
            [[Access(-1, 0, 1, True, "a")], [Access(-1, 0, 1, True, "b")], [Access(-1, 0, 1, False, "a")]],
            [(), (), (0,)],
            id="buffers with the same token on two devices",
        ),
        pytest.param(
            [[writes(0, 4)], [reads(0, 4), writes(4, 8)], [reads(0, 8)]],
            [(), (0,), (1,)],
            id="implied dependencies are omitted",
        ),
    ],
)
def test_a_step_waits_for_steps_that_use_the_same_bytes(
    steps: list[list[Access]], expected: list[tuple[int, ...]]
) -> None:
    assert dependencies(steps) == expected


accesses = st.builds(
    lambda pool, start, length, is_write: Access(pool, start, start + length, is_write),
    st.integers(0, 1),
    st.integers(0, 12),
    st.integers(1, 4),
    st.booleans(),
)


@given(st.lists(st.lists(accesses, max_size=4), max_size=8))
def test_only_conflicting_steps_are_ordered(steps: list[list[Access]]) -> None:
    direct = dependencies(steps)
    before: list[set[int]] = []
    for needs in direct:
        before.append(set(needs).union(*(before[need] for need in needs)))
    for late, mine in enumerate(steps):
        for early, theirs in enumerate(steps[:late]):
            if any(a.conflicts(b) for a in mine for b in theirs):
                assert early in before[late]
        for need in direct[late]:
            assert any(a.conflicts(b) for a in mine for b in steps[need])
            assert all(need not in before[other] for other in direct[late])
