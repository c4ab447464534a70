from __future__ import annotations

import pytest

from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import as_images, listed
from nnhal.support.rules import first_objection


@pytest.mark.parametrize(
    ("dimensions", "image"), [((5,), (1, 1, 1, 5)), ((3, 5), (1, 1, 3, 5)), ((2, 3, 4, 5), (2, 3, 4, 5))]
)
def test_missing_axes_are_in_front(dimensions: tuple[int, ...], image: tuple[int, ...]) -> None:
    assert as_images(dimensions) == image


def test_answers_after_an_objection_are_not_evaluated() -> None:
    objection = Unsupported("SHAPE", "a", "b")
    given: list[Support] = [SUPPORTED, objection, SUPPORTED]
    answers = iter(given)
    assert first_objection(answers) is objection
    assert list(answers) == [SUPPORTED]
    assert first_objection([]) == SUPPORTED


def test_numbers_as_people_read_them() -> None:
    assert listed((1, 2, 3)) == "1, 2 or 3"
    assert listed(range(1, 3)) == "1 or 2"
