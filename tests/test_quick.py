"""The sample that ``make quick`` runs: of every function a test, as many as go, the same each time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import quick


@dataclass(frozen=True)
class Case:
    """A test as pytest describes it."""

    parent: str
    originalname: str
    name: str


CASES: list[Any] = [
    *(Case("a.py", "test_one", f"test_one[{number}]") for number in range(40)),
    *(Case("a.py", "test_two", f"test_two[{number}]") for number in range(3)),
    Case("b.py", "test_one", "test_one"),
]


@pytest.mark.parametrize(("most", "counts"), [(1, (1, 1, 1)), (9, (5, 3, 1)), (100, (40, 3, 1))])
def test_of_each_function_there_are_as_many_as_go(
    monkeypatch: pytest.MonkeyPatch, most: int, counts: tuple[int]
) -> None:
    monkeypatch.setattr(quick, "_MOST", most)
    chosen, others = quick.sample(CASES)
    found = Counter((case.parent, case.originalname) for case in chosen)  # type: ignore[attr-defined]
    assert tuple(found.values()) == counts
    assert sorted(map(repr, [*chosen, *others])) == sorted(map(repr, CASES))
    assert quick.sample(list(reversed(CASES)))[0] == list(reversed(chosen))
