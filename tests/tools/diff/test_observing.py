"""Values that are taken for those of a model that fuses operations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import general_failure
from nnhal_tools.diff.observing import MOST_PROBES, observe

OUTPUT = 100


class FusingPiece:
    """Gives other outputs if one of some values is asked for."""

    def __init__(self, fused: Collection[int] = (), cuttable: Collection[int] = (), most: int = 99) -> None:
        self.fused, self.cuttable, self.most, self.runs, self.drift = fused, cuttable, most, 0, 0.0

    def run(self, shown: Sequence[int]) -> list[Mapping[int, Array]]:
        self.runs += 1
        if len(shown) > self.most:
            general_failure("too many outputs")
        changed = any(value in self.fused for value in shown)
        return [self._values(shown, float(changed) + self.drift * self.runs)]

    def cut_at(self, value: int) -> list[Mapping[int, Array]]:
        self.runs += 1
        if value not in self.cuttable:
            general_failure("no cut")
        return [self._values([value], 0.0)]

    def _values(self, shown: Sequence[int], output: float) -> dict[int, Array]:
        return {OUTPUT: np.array([output]), **{value: np.array([float(value)]) for value in shown}}


def test_all_values_come_from_one_run_if_that_changes_nothing() -> None:
    piece = FusingPiece()
    found = observe(piece, range(10))
    assert found.samples[0].keys() == {OUTPUT, *range(10)}
    assert (found.fused, piece.runs) == ([], 2)


def test_values_that_change_the_outputs_are_fused_and_no_others() -> None:
    found = observe(FusingPiece(fused={3, 7}), range(16))
    assert found.fused == [3, 7]
    assert found.samples[0].keys() == {OUTPUT, *range(16)} - {3, 7}
    assert found.samples[0][OUTPUT].tolist() == [0.0]


def test_a_value_may_come_from_a_cut() -> None:
    found = observe(FusingPiece(fused={3, 7}, cuttable={3}), range(16))
    assert found.fused == [7]
    assert found.samples[0][3].tolist() == [3.0]


def test_a_device_with_few_outputs_shows_a_few_at_a_time() -> None:
    found = observe(FusingPiece(most=2), range(9))
    assert found.fused == []
    assert found.samples[0].keys() == {OUTPUT, *range(9)}


def test_no_run_asks_for_many_values_before_one_has_shown_fewer() -> None:
    """A compiler may take long until it finds that it cannot keep so many outputs."""
    asked: list[int] = []

    class Asked(FusingPiece):
        def run(self, shown: Sequence[int]) -> list[Mapping[int, Array]]:
            asked.append(len(shown))
            return super().run(shown)

    found = observe(Asked(), range(40), first=8)
    assert (asked, found.fused) == ([0, 8, 16, 16], [])
    asked.clear()
    found = observe(Asked(most=10), range(40), first=8)
    assert (max(asked), found.fused) == (16, [])
    assert found.samples[0].keys() == {OUTPUT, *range(40)}


def test_the_search_is_bounded() -> None:
    piece = FusingPiece(fused=range(2000))
    found = observe(piece, range(1000))
    assert sorted(found.fused) == list(range(1000))
    assert piece.runs <= MOST_PROBES + 2


def test_outputs_that_differ_from_run_to_run_are_no_evidence() -> None:
    piece = FusingPiece()
    piece.drift = 1.0
    found = observe(piece, range(4))
    assert not found.repeats
    assert found.fused == []


def test_bits_decide_so_that_two_nans_are_the_same() -> None:
    piece = FusingPiece()
    piece.drift = np.nan
    found = observe(piece, [1])
    assert found.repeats
    assert found.samples[0].keys() == {OUTPUT, 1}


@pytest.mark.parametrize("inner", [[], [1]])
def test_the_model_runs_once_more_for_inner_values(inner: list[int]) -> None:
    piece = FusingPiece()
    observe(piece, inner)
    assert piece.runs == (2 if inner else 1)
