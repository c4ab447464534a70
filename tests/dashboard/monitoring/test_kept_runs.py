from __future__ import annotations

from nnhal.v1 import framework_admin_pb2
from nnhal_dashboard.monitoring.kept_runs import continued, kept_runs

SECOND = 10**9
Run = framework_admin_pb2.FinishedRun


def runs(first: int, count: int, error: str = "") -> list[Run]:
    """Return runs that ended a second apart."""
    return [Run(number=number, ended_ns=number * SECOND, error=error) for number in range(first, first + count)]


def numbers(kept: tuple[Run, ...]) -> list[int]:
    return [run.number for run in kept]


def test_the_last_runs_are_kept() -> None:
    assert numbers(kept_runs(runs(1, 700), ())) == list(range(201, 701))


def test_runs_that_went_well_do_not_push_out_those_that_failed() -> None:
    assert numbers(kept_runs([*runs(1, 3, "lost"), *runs(4, 700)], ()))[:4] == [1, 2, 3, 204]


def test_runs_around_an_event_stay() -> None:
    kept = kept_runs(runs(1, 2000), [100 * SECOND, 900 * SECOND, 1990 * SECOND])
    assert numbers(kept) == [*range(95, 106), *range(895, 906), *range(1501, 2001)]
    assert kept_runs(kept, [100 * SECOND, 900 * SECOND, 1990 * SECOND]) == kept


def test_of_many_runs_around_an_event_the_nearest_stay() -> None:
    many = [Run(number=number, ended_ns=100 * SECOND + number * 10**6) for number in range(1, 4000)]
    kept = kept_runs([*many, *runs(5000, 500)], [100 * SECOND])
    assert numbers(kept)[:26] == [*range(1, 26), 5000]


def test_not_more_than_so_many_are_kept_however_much_happens() -> None:
    known: tuple[Run, ...] = ()
    for number in range(0, 100_000, 1000):
        events = [at * SECOND for at in range(max(0, number - 5000), number, 20)]
        known = kept_runs(continued(known, runs(number + 1, 1000)), events)
    assert len(known) <= 500 + 32 * 25


def test_a_framework_that_was_started_again_counts_anew() -> None:
    assert continued(runs(1, 9), runs(3, 2)) == runs(3, 2)
    assert continued(runs(1, 9), []) == runs(1, 9)
