"""Addresses of tensors and buffers, plan by plan."""

from __future__ import annotations

from itertools import pairwise

from nnhal_cascade.schedule.placement import Placer, PlanNeeds
from nnhal_cascade.schedule.profile import PlanProfile

NOTHING = PlanProfile()


def needs(
    *arriving: int,
    dying: tuple[int, ...] = (),
    scratch: tuple[int, ...] = (),
    profiles: tuple[PlanProfile, PlanProfile] = (NOTHING, NOTHING),
    constants: tuple[int, ...] = (),
) -> PlanNeeds:
    return PlanNeeds(arriving, frozenset(dying), (scratch, scratch), profiles, frozenset(constants))


def sharing(below: int, above: int) -> PlanProfile:
    """Return how close tensor 1 may lie to the dying tensor 0."""
    return PlanProfile(below={(1, 0): below}, above={(1, 0): above})


def test_tensors_that_live_together_lie_apart() -> None:
    placer = Placer([30, 20], [needs(0), needs(1, dying=(0,))])
    assert placer.least() == 50
    assert placer.place(49) is None
    placed = placer.place(50)
    assert placed is not None
    assert {placed[0].arriving[0], placed[1].arriving[1]} in ({0, 30}, {20, 0})


def test_an_output_lies_over_a_dying_input_as_far_as_it_may() -> None:
    over = sharing(5, 30)
    placer = Placer([30, 20], [needs(0), needs(1, dying=(0,), profiles=(over, over))])
    assert placer.least() == 35
    placed = placer.place(35)
    assert placed is not None
    assert (placed[0].arriving[0], placed[1].arriving[1]) == (5, 0)


def test_a_plan_runs_backwards_if_only_that_fits() -> None:
    placer = Placer([30, 20], [needs(0), needs(1, dying=(0,), profiles=(sharing(20, 30), sharing(20, 12)))])
    placed = placer.place(32)
    assert placed is not None
    assert placed[1].backwards
    assert placed[1].arriving[1] == placed[0].arriving[0] + 12


def test_an_earlier_tensor_moves_if_a_later_one_has_no_place() -> None:
    """Tensor 2 stays to the end. Between it and a border there must be room for tensor 3."""
    sizes = [10, 10, 10, 30]
    placer = Placer(sizes, [needs(0), needs(1), needs(2, dying=(0,)), needs(3, dying=(1,))])
    placed = placer.place(50)
    assert placed is not None
    alive = dict(placed[2].alive) | placed[3].arriving
    pieces = sorted((base, base + sizes[tensor]) for tensor, base in alive.items())
    assert all(one[1] <= other[0] for one, other in pairwise(pieces))


def test_constants_lie_where_the_plan_before_leaves_the_memory_free() -> None:
    placer = Placer([10, 10], [needs(0), needs(1, scratch=(20,)), needs(scratch=(20,), constants=(0,))])
    placed = placer.place(60)
    assert placed is not None
    early = placed[2].scratch[0]
    assert all(early + 20 <= start or stop <= early for start, stop in placed[1].occupied)
    tight = placer.place(40)
    assert tight is not None
    assert tight[2].scratch == tight[1].scratch


def test_the_furthest_plan_is_known_if_there_is_no_place() -> None:
    placer = Placer([30, 20], [needs(0), needs(1)])
    assert placer.place(49) is None
    assert placer.deepest == 1
