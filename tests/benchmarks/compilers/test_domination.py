"""Points of others that a frontier is at least as good as."""

from __future__ import annotations

from benchmarks.compilers.domination import Point, dominating, is_monotone

FRONTIER = [Point(100, 50), Point(200, 40), Point(300, 30)]


def test_the_fastest_point_that_needs_no_more_memory_dominates() -> None:
    assert dominating(Point(250, 45), FRONTIER) == Point(200, 40)
    assert dominating(Point(200, 40), FRONTIER) == Point(200, 40)


def test_a_point_with_less_memory_or_fewer_cycles_is_not_dominated() -> None:
    assert dominating(Point(99, 1000), FRONTIER) is None
    assert dominating(Point(299, 39), FRONTIER) is None


def test_more_memory_must_not_be_slower() -> None:
    assert is_monotone(FRONTIER[::-1])
    assert is_monotone([])
    assert is_monotone([Point(100, 40), Point(200, 40)])
    assert not is_monotone([*FRONTIER, Point(400, 31)])
    assert not is_monotone([Point(100, 40), Point(100, 41)])
