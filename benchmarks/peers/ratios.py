"""Ratios of results, the aims, and both as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.table import Table

from benchmarks.peers.contenders import (
    CNN,
    ECHO,
    FLOOR,
    HTTP_BYTES,
    KSERVE,
    LARGE,
    MLSERVER,
    NATIVE,
    PING_PONG,
    TINY,
    TRITON,
    TRITON_GRPC,
    TRITON_HTTP,
    V2_BYTES,
    V2_SHARED,
    pass_through,
)
from benchmarks.peers.rounds import Result

_WORDS = {True: "met", False: "missed", None: ""}
_OVER_TRITON = {TINY: 4.0, LARGE: 3.0, CNN: 1.0}
_KIB_256 = 256 << 10
_NATIVE_RATE = 20_000.0
_NATIVE_CPU_US = 45.0


class Quantity(StrEnum):
    """What is compared."""

    RATE = "requests/s"
    P50 = "p50"
    CPU = "servers' CPU"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two contenders compared, or one with a number."""

    model: str
    """Name of the model."""
    concurrency: int
    """Requests under way at a time."""
    what: str
    """What is compared with what."""
    quantity: Quantity
    """What of them is compared."""
    ratio: float
    """The first one's over the second one's."""
    aim: float | None = None
    """The ratio that is wanted; None if there is no aim."""

    @property
    def at_most(self) -> bool:
        """Whether less is better, as for all quantities but a rate."""
        return self.quantity is not Quantity.RATE

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio reaches the aim; None if there is none."""
        if self.aim is None:
            return None
        return self.ratio <= self.aim if self.at_most else self.ratio >= self.aim


def ratios(results: Sequence[Result], sizes: Sequence[int]) -> list[Ratio]:
    """Every ratio that the results allow."""
    found: list[Ratio] = []
    for model, concurrency in dict.fromkeys((result.model, result.concurrency) for result in results):
        own = {r.contender: r for r in results if (r.model, r.concurrency) == (model, concurrency)}
        of = _Cell(model, concurrency, own)
        found += of.rates(sizes)
        found += of.floors()
        if (model, concurrency) == (LARGE, 1):
            found += _in_place(of, [r for r in results if (r.model, r.concurrency) == (TINY, 1)])
    return found


@dataclass(frozen=True, slots=True)
class _Cell:
    """The results of one model at one concurrency."""

    model: str
    concurrency: int
    own: Mapping[str, Result]

    def rates(self, sizes: Sequence[int]) -> Iterator[Ratio]:
        """Compare with the peers, and shared memory with bytes."""
        tritons = [result for name, result in self.own.items() if name.startswith(TRITON)]
        if tritons:
            fastest = max(tritons, key=lambda result: result.rate).contender
            yield from self._rate(NATIVE, fastest, _OVER_TRITON.get(self.model), f"{TRITON}'s fastest, {fastest}")
        is_tiny = self.model == TINY
        yield from self._rate(HTTP_BYTES, TRITON_HTTP, 1.2 if is_tiny else None)
        yield from self._rate(V2_BYTES, TRITON_GRPC, 1.0 if is_tiny and self.concurrency > 1 else None)
        for peer in (MLSERVER, KSERVE):
            yield from self._rate(V2_BYTES, peer, 1.0)
            yield from self._rate(HTTP_BYTES, peer, 1.0 if is_tiny else None)
        passed = (size for size in sizes if pass_through(size) == self.model)
        size = next(passed, 16 << 20 if self.model == LARGE else 0)
        yield from self._rate(V2_SHARED, V2_BYTES, 1.0 if size >= _KIB_256 else None)

    def floors(self) -> Iterator[Ratio]:
        """Compare with what cannot be faster."""
        is_tiny, alone = self.model == TINY, self.concurrency == 1
        yield from self._rate(NATIVE, FLOOR, 0.87 if self.model == LARGE and not alone else None)
        if self.model == LARGE and alone:
            yield from self._p50(NATIVE, FLOOR, 1.1)
        if is_tiny and alone:
            yield from self._p50(NATIVE, PING_PONG, 1.5)
        over, under = self.own.get(V2_BYTES), self.own.get(ECHO)
        if over is not None and under is not None and over.cpu_us and under.cpu_us:
            aim = None if alone else 1.8
            yield self._ratio(f"{V2_BYTES} over {ECHO}", Quantity.CPU, over.cpu_us / under.cpu_us, aim)
        native = self.own.get(NATIVE)
        if native is not None and is_tiny and self.concurrency == 4:
            yield self._ratio(f"{NATIVE} over {_NATIVE_RATE:,.0f}/s", Quantity.RATE, native.rate / _NATIVE_RATE, 1.0)
            if native.cpu_us is not None:
                part = native.cpu_us / _NATIVE_CPU_US
                yield self._ratio(f"{NATIVE} over {_NATIVE_CPU_US:.0f} µs", Quantity.CPU, part, 1.0)

    def _rate(self, first: str, second: str, aim: float | None, words: str = "") -> Iterator[Ratio]:
        over, under = self.own.get(first), self.own.get(second)
        if over is not None and under is not None:
            yield self._ratio(f"{first} over {words or second}", Quantity.RATE, over.rate / under.rate, aim)

    def _p50(self, first: str, second: str, aim: float) -> Iterator[Ratio]:
        over, under = self.own.get(first), self.own.get(second)
        if over is not None and under is not None:
            yield self._ratio(f"{first} over {second}", Quantity.P50, over.p50_us / under.p50_us, aim)

    def _ratio(self, what: str, quantity: Quantity, ratio: float, aim: float | None) -> Ratio:
        return Ratio(self.model, self.concurrency, what, quantity, ratio, aim)


def _in_place(large: _Cell, tiny: Sequence[Result]) -> Iterator[Ratio]:
    """Compare a large request with the run in process and one small request: memory in place costs nothing beyond."""
    over, run = large.own.get(V2_SHARED), large.own.get(FLOOR)
    small = next((result for result in tiny if result.contender == V2_SHARED), None)
    if over is not None and run is not None and small is not None:
        ratio = over.p50_us / (run.p50_us + small.p50_us)
        what = f"{V2_SHARED} over in process and a tiny request"
        yield Ratio(LARGE, 1, what, Quantity.P50, ratio, 1.4)


def result_table(results: Sequence[Result]) -> Table:
    """Return a table with a row for each contender, the fastest of each model first."""
    table = Table("model", "concurrency", "contender", title="Medians of rounds")
    for name in ("inferences/s", "p50", "p99", "servers' CPU", "spread"):
        table.add_column(name, justify="right")
    groups = dict.fromkeys((result.model, result.concurrency) for result in results)
    for group in groups:
        own = [result for result in results if (result.model, result.concurrency) == group]
        for r in sorted(own, key=lambda result: -result.rate):
            times = ("" if value is None else f"{value:,.0f} µs" for value in (r.p50_us, r.p99_us, r.cpu_us))
            table.add_row(r.model, str(r.concurrency), r.contender, f"{r.rate:,.1f}", *times, f"{r.spread:.0%}")
        table.add_section()
    return table


def ratio_table(ratios: Sequence[Ratio]) -> Table:
    """Return a table with a row for each ratio that has no aim."""
    table = Table("model", "concurrency", "what", "of", title="Ratios")
    table.add_column("ratio", justify="right")
    for ratio in ratios:
        if ratio.aim is None:
            table.add_row(ratio.model, str(ratio.concurrency), ratio.what, ratio.quantity, f"{ratio.ratio:.2f}")
    return table


def aim_table(ratios: Sequence[Ratio]) -> Table:
    """Return a table with a row for each ratio that has an aim."""
    table = Table("model", "concurrency", "what", "of", title="Aims")
    for name in ("ratio", "aim"):
        table.add_column(name, justify="right")
    table.add_column("")
    for r in ratios:
        if r.aim is not None:
            aim = f"{'<=' if r.at_most else '>='} {r.aim:.2f}"
            table.add_row(r.model, str(r.concurrency), r.what, r.quantity, f"{r.ratio:.2f}", aim, _WORDS[r.is_met])
    return table
