"""The request of a step: its values, wherever they lie."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.types import DataLocation, Request, RequestArgument, RequestMemoryPool
from nnhal.types.layout import is_scalar
from nnhal_service.runtime.slots import Place, Slot


def request_of(inputs: Sequence[Slot], outputs: Sequence[Slot], own: bool) -> Request:
    """The request of a step, with the pools that it uses and no others.

    ``own`` says that the step runs where the plan has it. Raises as ``Slot.to_read`` and ``Slot.to_write``.
    """
    pools: dict[int, tuple[int, RequestMemoryPool]] = {}

    def argument(slot: Slot, place: Place) -> RequestArgument:
        index, _ = pools.setdefault(pool_key(place.pool), (len(pools), place.pool))
        dimensions = () if is_scalar(slot.element.code) else slot.dimensions
        return RequestArgument(DataLocation(index, place.offset, place.length, place.padding), dimensions)

    return Request(
        tuple(
            argument(slot, slot.to_read(own)) if slot.has_value else RequestArgument(has_no_value=True)
            for slot in inputs
        ),
        tuple(argument(slot, slot.to_write(own)) for slot in outputs),
        tuple(pool for _, pool in pools.values()),
    )


def pool_key(pool: RequestMemoryPool) -> int:
    """What tells one pool of a request from another: tokens by their value, which is above 0, memory by identity."""
    return -pool if isinstance(pool, int) else id(pool)
