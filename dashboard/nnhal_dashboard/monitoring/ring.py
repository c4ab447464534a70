"""Values of a day in bounded memory: of each second, then of stretches of ten seconds, then of two minutes.

A stretch keeps the lowest value, the highest and the mean, so that a peak of one second is seen in a picture of a day.
Rates are steadied before they are put together (see ``steady``), and a stretch is settled only when what steadies it
has been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nnhal.admin import DURATION_BOUNDS_NS

SAMPLES = 1200
"""Seconds that are kept one by one."""
MOST_SERIES = 600
"""Series that are kept; of more, the one that was known longest ago is forgotten."""
SPREAD_SECONDS = 300.0
"""A rate is steadied over at most so long."""
_BREAK_SECONDS = 5.0
"""Between samples that are further apart nothing is known."""
RANGES = len(DURATION_BOUNDS_NS) + 1
"""The ranges of durations that are counted."""
Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]


class Tier(NamedTuple):
    """Stretches of one length."""

    seconds: int
    most: int
    """So many are kept."""


TIERS = (Tier(10, 400), Tier(120, 750))
"""A little more than an hour, and than a day."""


class Stretches(NamedTuple):
    """Values over time: of each stretch the lowest, the highest and the mean; NaN where nothing is known."""

    end: Floats
    """When each ends, in seconds since the epoch."""
    seconds: Floats
    """The time that each is."""
    low: Floats
    high: Floats
    mean: Floats


class RingSample(NamedTuple):
    """Sample of an instant."""

    at: float
    """Seconds since the epoch."""
    seconds: float
    """The time that before that instant the rates began."""
    values: Mapping[str, float]
    """By series."""
    durations: Sequence[int] = ()
    """How many requests took how long (see DURATION_BOUNDS_NS)."""
    covered: Mapping[str, float] = {}
    """For values of a longer time than ``seconds`` how many seconds that is, by series: they are those of the samples
    since then that did not know them."""


class RingColumn:
    """One series."""

    def __init__(self, known: float = 0.0) -> None:
        self.samples: Floats = np.full(SAMPLES, np.nan, np.float32)
        self.tiers: list[Floats] = [np.full((3, tier.most), np.nan, np.float32) for tier in TIERS]
        """For each tier the lowest values, the highest and the means, by the number of the stretch modulo the count."""
        self.known = known
        """When it was known last."""


class Ring:
    """Content of the ring. Not safe to use from several threads."""

    def __init__(self, occasions: Mapping[str, Sequence[str]] | None = None) -> None:
        """``occasions`` says which series are rates that are steadied, by the beginnings of their names, and by which
        other series besides (see ``steady``).
        """
        self._occasions = occasions or {}
        self.at = np.full(SAMPLES, -np.inf)
        self.seconds = np.zeros(SAMPLES)
        self.durations: Counts = np.zeros((SAMPLES, RANGES), np.int64)
        self.tier_durations: list[Counts] = [np.zeros((tier.most, RANGES), np.int64) for tier in TIERS]
        self.settled = [-1] * len(TIERS)
        """The number of the last settled stretch of each tier: its beginning in its lengths since the epoch."""
        self.columns: dict[str, RingColumn] = {}

    def add(self, sample: RingSample) -> None:
        """Add a sample. One that is not later than the last is left out: the clock was set back."""
        if sample.at <= self.at[-1]:
            return
        if np.isneginf(self.at[-1]):
            self.settled = [floor((sample.at - sample.seconds) / tier.seconds) - 1 for tier in TIERS]
        for array in (self.at, self.seconds, self.durations, *(each.samples for each in self.columns.values())):
            array[:-1] = array[1:]
        self.at[-1], self.seconds[-1], self.durations[-1] = sample.at, sample.seconds, 0
        counted = sample.durations[:RANGES]
        self.durations[-1, : len(counted)] = counted
        for column in self.columns.values():
            column.samples[-1] = np.nan
        for name, value in sample.values.items():
            column = self.columns.get(name) or self._new(name, sample.at)
            column.samples[-1], column.known = value, sample.at
            if name in sample.covered:
                column.samples[np.isnan(column.samples) & (self.at > sample.at - sample.covered[name])] = value
        for number, tier in enumerate(TIERS):
            self._settle(number, tier, sample.at)

    def names(self, kind: str) -> list[str]:
        """Return what is kept of a kind: the names of series that begin with it, without that beginning."""
        return [name.removeprefix(kind) for name in self.columns if name.startswith(kind)]

    def recent(self, name: str, seconds: float) -> float | None:
        """Return the mean of a series in the last seconds, each sample by its time; None if nothing is known."""
        column = self.columns.get(name)
        if column is None:
            return None
        known = (self.at > self.at[-1] - seconds) & ~np.isnan(column.samples)
        weights = self.seconds[known]
        return float(np.average(column.samples[known], weights=weights)) if weights.any() else None

    def stretches(self, name: str, end: float, seconds: float, step: float) -> Stretches:
        """Return the values of a series in the time until an instant, in stretches of ``step`` seconds."""
        edges = _edges(end, seconds, step)
        column = self.columns.get(name)
        if column is None:
            return Stretches(edges[1:], np.diff(edges), *np.full((3, len(edges) - 1), np.nan))
        return _together(self._kept(name, column), edges)

    def counts(self, end: float, seconds: float, step: float) -> tuple[Floats, Counts]:
        """Return the ends of stretches, and how many requests took how long in each."""
        edges = _edges(end, seconds, step)
        ends, _, rows = self._parts(self.durations, self.tier_durations, lambda array, picked: array[picked])
        placed = np.searchsorted(ends, edges, side="right")
        sums = np.concatenate([np.zeros((1, RANGES), np.int64), np.cumsum(rows, axis=0)])
        return edges[1:], sums[placed[1:]] - sums[placed[:-1]]

    def _new(self, name: str, at: float) -> RingColumn:
        if len(self.columns) >= MOST_SERIES:
            del self.columns[min(self.columns, key=lambda each: self.columns[each].known)]
        self.columns[name] = column = RingColumn(at)
        return column

    def _settle(self, number: int, tier: Tier, now: float) -> None:
        """Put together the stretches whose samples will not change any more."""
        last = floor((now - SPREAD_SECONDS) / tier.seconds) - 1
        first = max(self.settled[number] + 1, last - tier.most + 1)
        if first > last:
            return
        edges = tier.seconds * np.arange(first, last + 2, dtype=np.float64)
        places = np.arange(first, last + 1) % tier.most
        for name, column in self.columns.items():
            column.tiers[number][:, places] = _together(self._samples(name, column), edges)[2:]
        placed = np.searchsorted(self.at, edges, side="right")
        for place, begin, end in zip(places, placed[:-1], placed[1:], strict=True):
            self.tier_durations[number][place] = self.durations[begin:end].sum(axis=0)
        self.settled[number] = last

    def _samples(self, name: str, column: RingColumn) -> Stretches:
        """The samples of a series, a rate steadied."""
        values = column.samples
        kind = next((kind for kind in self._occasions if name.startswith(kind)), None)
        if kind is not None:
            others = [self.columns[each].samples for each in self._occasions[kind] if each in self.columns]
            values = steady(self.at, self.seconds, values, others)
        return Stretches(self.at, self.seconds, values, values, values)

    def _kept(self, name: str, column: RingColumn) -> Stretches:
        """All that is kept of a series, the oldest first."""
        samples = np.stack(self._samples(name, column)[2:])
        ends, seconds, values = self._parts(samples, column.tiers, lambda array, picked: array[:, picked], axis=1)
        return Stretches(ends, seconds, *values)

    def _parts(
        self,
        samples: NDArray[np.generic],
        tiers: Sequence[NDArray[np.generic]],
        pick: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]],
        axis: int = 0,
    ) -> tuple[Floats, Floats, NDArray[Any]]:
        """Join samples with what tiers have of the time before them: ends, lengths and values."""
        known = self.at > -np.inf
        begin = float((self.at - self.seconds)[known][0]) if known.any() else 0.0
        parts = []
        for number, tier in enumerate(TIERS):
            # The next longer stretches must begin where these do.
            longer = TIERS[number + 1].seconds if number + 1 < len(TIERS) else tier.seconds
            cut = min(ceil(begin / tier.seconds), self.settled[number] + 1) * tier.seconds
            begin = max(0.0, ceil((self.settled[number] - tier.most + 1) * tier.seconds / longer) * longer)
            numbers = np.arange(round(begin / tier.seconds), min(self.settled[number] + 1, cut // tier.seconds))
            lengths = np.full(len(numbers), float(tier.seconds))
            parts.append(((numbers + 1.0) * tier.seconds, lengths, pick(tiers[number], numbers % tier.most)))
            if number == 0:
                newest = known & (self.at > cut)
        parts = [*reversed(parts), (self.at[newest], self.seconds[newest], pick(samples, np.flatnonzero(newest)))]
        ends, lengths, values = zip(*parts, strict=True)
        return np.concatenate(ends), np.concatenate(lengths), np.concatenate(values, axis=axis)


def steady(at: Floats, seconds: Floats, rates: Floats, occasions: Sequence[Floats] = ()) -> Floats:
    """Return a rate of which the samples count no more than one thing at a time: each stands for the time since the one
    before, so that one request in ten seconds is 0.1 a second all the time, and not 1 and 0 in turn.

    What is counted may belong to something slower: bytes and executions to requests. ``occasions`` are such rates, of
    the same samples: a sample is steadied if any of these counts one thing at most around it. Samples of more keep what
    they have, and so do those that follow none within SPREAD_SECONDS: a burst is a burst, and its peak is seen.
    """
    amounts = np.where(np.isnan(rates), 0.0, rates * seconds)
    with np.errstate(invalid="ignore"):  # no sample has been taken yet
        is_break = np.isnan(rates) | (np.diff(at, prepend=-np.inf) - seconds > _BREAK_SECONDS)
    single = amounts <= 1.5
    for other in occasions:
        counted = np.nan_to_num(other) * seconds
        around = np.maximum(counted, np.maximum(np.append(counted[1:], 0), np.append(0, counted[:-1])))
        single |= (around > 0) & (around <= 1.5)
    found = np.array(rates, np.float64)
    ends = np.flatnonzero((amounts > 0) | is_break)
    if len(ends) < 2:
        return found
    begin, end = ends[:-1], ends[1:]
    passed = np.cumsum(seconds)
    took = passed[end] - passed[begin]
    spread = (amounts[begin] > 0) & (amounts[end] > 0) & ~is_break[end] & single[end] & (took <= SPREAD_SECONDS)
    lengths = np.diff(ends)
    new = np.repeat(np.where(spread, amounts[end] / np.maximum(took, 1e-3), 0.0), lengths)
    old = found[begin[0] + 1 : end[-1] + 1]
    found[begin[0] + 1 : end[-1] + 1] = np.where(np.repeat(spread, lengths), new, old)
    since = passed[-1] - passed[end[-1]]
    if spread[-1] and 0 < since <= SPREAD_SECONDS:  # one more is still to come, and comes no faster than this
        found[end[-1] + 1 :] = min(found[end[-1]], amounts[end[-1]] / since)
    return found


def _edges(end: float, seconds: float, step: float) -> Floats:
    """Multiples of the step, so that stretches keep what they hold while time goes on; the last may be only begun."""
    last = ceil(end / step)
    return step * np.arange(last - round(seconds / step), last + 1, dtype=np.float64)


def _together(parts: Stretches, edges: Floats) -> Stretches:
    """Put together what lies between edges. What is longer than that stands in each that it covers."""
    count = len(parts.end)
    placed = np.searchsorted(parts.end, edges, side="right")
    first, last = placed[:-1], placed[1:]
    begins = np.append(parts.end - parts.seconds, np.inf)
    covers = (first == last) & (begins[np.minimum(last, count)] < edges[1:] - 1e-6)
    last = np.where(covers, last + 1, last)
    bounds = np.stack([first, last], axis=1).ravel()
    is_empty = first == last

    def of(values: Floats, how: np.ufunc, absent: float) -> Floats:
        padded = np.append(np.where(np.isnan(values), absent, values), absent)
        found: Floats = how.reduceat(padded, np.minimum(bounds, count))[::2]
        return np.where(is_empty, absent, found)

    with np.errstate(invalid="ignore"):
        known = np.where(np.isnan(parts.mean), 0.0, parts.seconds)
        weight = of(known, np.add, 0.0)
        low, high = of(parts.low, np.fmin, np.inf), of(parts.high, np.fmax, -np.inf)
        total = of(np.nan_to_num(parts.mean) * known, np.add, 0.0)
        nothing = weight == 0
        mean = np.where(nothing, np.nan, total / np.where(nothing, 1.0, weight))
    return Stretches(edges[1:], np.diff(edges), np.where(nothing, np.nan, low), np.where(nothing, np.nan, high), mean)
