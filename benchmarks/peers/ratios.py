"""What the results say of one another, and of the aims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.peers.contenders import (
    CNN,
    FLOOR,
    KSERVE,
    LARGE,
    MLSERVER,
    NATIVE,
    TINY,
    TRITON,
    V2_BYTES,
    V2_SHARED,
    pass_through,
)
from benchmarks.peers.rounds import Result

_AIMS = {TINY: 4.0, LARGE: 3.0, CNN: 1.0}
_KIB_256 = 256 << 10


@dataclass(frozen=True, slots=True)
class Ratio:
    """Requests per second of one over those of another. ``aim`` is the least that is wanted, None where nothing is."""

    model: str
    concurrency: int
    what: str
    ratio: float
    aim: float | None

    @property
    def is_met(self) -> bool | None:
        """None where there is no aim."""
        return None if self.aim is None else self.ratio >= self.aim


def ratios(results: Sequence[Result], sizes: Sequence[int]) -> list[Ratio]:
    """All that the results allow."""
    found = []
    for model, concurrency in dict.fromkeys((result.model, result.concurrency) for result in results):
        rates = {r.contender: r.rate for r in results if (r.model, r.concurrency) == (model, concurrency)}
        found += [
            Ratio(model, concurrency, what, over / under, aim)
            for what, over, under, aim in _pairs(model, concurrency, rates, sizes)
        ]
    return found


def _pairs(
    model: str, concurrency: int, rates: dict[str, float], sizes: Sequence[int]
) -> Iterator[tuple[str, float, float, float | None]]:
    native, plain, shared = (rates.get(name) for name in (NATIVE, V2_BYTES, V2_SHARED))
    tritons = {name: rate for name, rate in rates.items() if name.startswith(TRITON)}
    if native is not None and tritons:
        fastest = max(tritons, key=lambda name: tritons[name])
        yield f"native over Triton's fastest ({fastest})", native, tritons[fastest], _AIMS.get(model)
    if native is not None and FLOOR in rates:
        aim = 1 / 1.15 if model == LARGE and concurrency == 1 else None
        yield "native over ONNX Runtime in process", native, rates[FLOOR], aim
    for peer in (MLSERVER, KSERVE):
        if plain is not None and peer in rates:
            yield f"V2 gRPC bytes over {peer}", plain, rates[peer], 1.0
    if plain is not None and shared is not None:
        size = next((size for size in sizes if pass_through(size) == model), 16 << 20 if model == LARGE else 0)
        yield "V2 gRPC shared memory over bytes", shared, plain, 1.0 if size >= _KIB_256 else None
