"""The ratios between results, and whether they reach the aims."""

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
    """How much faster one contender is than another."""

    model: str
    """The model's name."""
    concurrency: int
    """Clients that send requests at the same time."""
    what: str
    """What is compared."""
    ratio: float
    """The one's requests per second over the other's."""
    p50: float
    """The other's median latency over the one's, which a busy machine disturbs less."""
    aim: float | None
    """The least ratio that is wanted, if any."""

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio reaches its aim; None without an aim."""
        return None if self.aim is None else self.ratio >= self.aim


def ratios(results: Sequence[Result], sizes: Sequence[int]) -> list[Ratio]:
    """Return every ratio that the results allow."""
    found = []
    for model, concurrency in dict.fromkeys((result.model, result.concurrency) for result in results):
        own = {r.contender: r for r in results if (r.model, r.concurrency) == (model, concurrency)}
        found += [
            Ratio(model, concurrency, what, over.rate / under.rate, under.p50_us / over.p50_us, aim)
            for what, over, under, aim in _pairs(model, concurrency, own, sizes)
        ]
    return found


def _pairs(
    model: str, concurrency: int, own: dict[str, Result], sizes: Sequence[int]
) -> Iterator[tuple[str, Result, Result, float | None]]:
    native, plain, shared = (own.get(name) for name in (NATIVE, V2_BYTES, V2_SHARED))
    tritons = [result for name, result in own.items() if name.startswith(TRITON)]
    if native is not None and tritons:
        fastest = max(tritons, key=lambda result: result.rate)
        yield f"native over Triton's fastest ({fastest.contender})", native, fastest, _AIMS.get(model)
    if native is not None and FLOOR in own:
        aim = 1 / 1.15 if model == LARGE and concurrency == 1 else None
        yield "native over ONNX Runtime in process", native, own[FLOOR], aim
    for peer in (MLSERVER, KSERVE):
        if plain is not None and peer in own:
            yield f"V2 gRPC bytes over {peer}", plain, own[peer], 1.0
    if plain is not None and shared is not None:
        size = next((size for size in sizes if pass_through(size) == model), 16 << 20 if model == LARGE else 0)
        yield "V2 gRPC shared memory over bytes", shared, plain, 1.0 if size >= _KIB_256 else None
