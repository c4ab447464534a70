"""Values that keep their place in the tiles' memory from run to run: the pinned weights of loaded models."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_mlip.program.binary import MlipBinary
from nnhal_mlip.program.ocm_placement import (
    DEFAULT_PAGE_BYTES,
    OcmPlacement,
    OcmPlacementError,
    ocm_demand,
    place_model,
)


class OcmResidence:
    """The places of pinned weights on one accelerator, as the public driver gives them. Safe to use from threads.

    A model without pinned weights keeps nothing, and needs no place.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # an owner may die while its thread holds the lock
        self._placed: list[OcmPlacement] = []

    @property
    def pinned_bytes(self) -> int:
        """Bytes of OCM that loaded models keep, of all tiles together."""
        with self._lock:
            return sum(place.tiles * place.weight_pages for place in self._placed) * DEFAULT_PAGE_BYTES

    @property
    def placed(self) -> int:
        """Return how many models keep weights in OCM."""
        return len(self._placed)

    def load(self, binaries: Sequence[MlipBinary], owner: object) -> None:
        """Give models their places for as long as ``owner`` lives.

        Raises RESOURCE_EXHAUSTED_TRANSIENT if the models that are loaded leave no place.
        """
        taken: list[OcmPlacement] = []
        with self._lock:
            try:
                for binary in binaries:
                    if binary.program.pinned:
                        demand = ocm_demand(binary.metadata.model)
                        taken.append(place_model(demand, [*self._placed, *taken]))
            except OcmPlacementError as error:
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"weights cannot be pinned: {error}"
                ) from error
            self._placed += taken
        weakref.finalize(owner, self._unload, taken)

    def _unload(self, places: Sequence[OcmPlacement]) -> None:
        with self._lock:
            for place in places:
                self._placed.remove(place)
