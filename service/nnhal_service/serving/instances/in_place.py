"""Tensors of a model's requests that devices use in place in memory of clients, and those that are copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from nnhal.errors import HalError
from nnhal.types.layout import Dimensions
from nnhal_service.fallback.edges import UNSEALED_FILE
from nnhal_service.runtime import PreparedPlan
from nnhal_service.serving.requests.client_memory import Place, PlacedTensor, to_array
from nnhal_service.serving.requests.planned_run import copies_nothing
from nnhal_service.serving.requests.request import InferenceRequest
from nnhal_service.serving.requests.signature import ServedTensor

LEAST_BYTES = 1 << 16
"""Smaller tensors are copied: that costs less than an instance for each place in which they lie."""
_MOST_SHAPES = 256


class Places(NamedTuple):
    """Places of a run's inputs and outputs in memory of clients, in the model's order; None for our own memory."""

    inputs: tuple[Place | None, ...] = ()
    outputs: tuple[Place | None, ...] = ()

    @property
    def all(self) -> list[Place]:
        return [place for place in (*self.inputs, *self.outputs) if place is not None]


NO_PLACES = Places()


class InPlaceUse:
    """Decides for one model. A tensor is used in place if it is large and aligned, has the model's own form, and every
    device that reads or writes it by plan can map files that may shrink.
    """

    def __init__(
        self, prepared: PreparedPlan | None, inputs: Sequence[ServedTensor], outputs: Sequence[ServedTensor]
    ) -> None:
        """Without a plan, nothing is used in place."""
        self._sizes: _OutputSizes | None = None
        self._alignment = 1
        self._inputs: frozenset[str] = frozenset()
        self._outputs: tuple[ServedTensor | None, ...] = (None,) * len(outputs)
        if prepared is not None:
            self._sizes = _OutputSizes(prepared, inputs, outputs)
            self._alignment = max([1, *(side.alignment for side in prepared.sides.values())])
            imported = prepared.imported
            used = [
                _has_one_form(served) and copies_nothing(prepared, tensor.operand, UNSEALED_FILE)
                for served, tensor in zip((*inputs, *outputs), (*imported.inputs, *imported.outputs), strict=True)
            ]
            self._inputs = frozenset(
                served.tensor.name for served, is_used in zip(inputs, used, strict=False) if is_used
            )
            self._outputs = tuple(
                served if is_used else None for served, is_used in zip(outputs, used[len(inputs) :], strict=True)
            )

    def knows(self, shapes: tuple[Dimensions, ...]) -> bool:
        """Return whether ``places_of`` has nothing to compute for inputs of these shapes."""
        return self._sizes is None or self._sizes.knows(shapes)

    def must_read(self, request: InferenceRequest) -> bool:
        """Return whether inputs of a request must be read from memory of clients."""
        for name, tensor in request.inputs.items():
            if isinstance(tensor, PlacedTensor) and not self._stays(name, tensor):
                return True
        return False

    def read(self, request: InferenceRequest) -> InferenceRequest:
        """The request with those inputs read. Raises INVALID_ARGUMENT if a file has become too short, and
        RESOURCE_EXHAUSTED if requests may hold no more.
        """
        for name, tensor in request.inputs.items():
            if isinstance(tensor, PlacedTensor) and not self._stays(name, tensor):
                request.copying(tensor.nbytes)
        inputs = {
            name: tensor if isinstance(tensor, PlacedTensor) and self._stays(name, tensor) else to_array(tensor)
            for name, tensor in request.inputs.items()
        }
        return replace(request, inputs=inputs)

    def places_of(
        self, inputs: tuple[Place | None, ...], shapes: tuple[Dimensions, ...], given: Mapping[str, Place]
    ) -> Places:
        """The places of a run, whose inputs have these ``shapes``; ``given`` is where the client wants its outputs."""
        if self._sizes is None:
            return NO_PLACES
        taken = [place for place in inputs if place is not None]
        outputs: list[Place | None] = []
        for served, size in zip(self._outputs, self._sizes.of(shapes), strict=True):
            place = given.get(served.tensor.name) if served is not None else None
            if place is not None:
                place = self._room_in(place, size, taken)
                if place is not None:
                    taken.append(place)
            outputs.append(place)
        return Places(inputs, tuple(outputs)) if taken else NO_PLACES

    def _stays(self, name: str, tensor: PlacedTensor) -> bool:
        return name in self._inputs and self._is_usable(tensor.place)

    def _is_usable(self, place: Place) -> bool:
        return place.byte_size >= LEAST_BYTES and place.region.can_be_mapped and place.is_aligned(self._alignment)

    def _room_in(self, place: Place, size: int, taken: Sequence[Place]) -> Place | None:
        """The bytes of an output at a place; None if their number is unknown, or if other tensors take them too."""
        found = place._replace(byte_size=size)
        if not size or size > place.byte_size or not self._is_usable(found):
            return None
        return None if any(found.overlaps(other) for other in taken) else found


class _OutputSizes:
    """The bytes of a model's outputs by the dimensions of its inputs."""

    def __init__(self, prepared: PreparedPlan, inputs: Sequence[ServedTensor], outputs: Sequence[ServedTensor]) -> None:
        imported = prepared.imported
        self._prepared = prepared
        self._open_inputs = [
            tensor.operand if served.tensor.is_open else None
            for served, tensor in zip(inputs, imported.inputs, strict=True)
        ]
        self._outputs = [
            (served.tensor, tensor.operand) for served, tensor in zip(outputs, imported.outputs, strict=True)
        ]
        self._known: dict[tuple[Dimensions, ...], list[int]] = {}

    def knows(self, shapes: tuple[Dimensions, ...]) -> bool:
        """Return whether ``of`` has nothing to compute for inputs of these shapes."""
        return shapes in self._known

    def of(self, shapes: tuple[Dimensions, ...]) -> list[int]:
        """The bytes of each output for inputs of these shapes; 0 if they depend on data, or shapes do not fit."""
        sizes = self._known.get(shapes)
        if sizes is None:
            bound = {
                operand: shape for operand, shape in zip(self._open_inputs, shapes, strict=True) if operand is not None
            }
            try:
                dimensions = self._prepared.dimensions_with(bound)
            except HalError:
                sizes = [0] * len(self._outputs)  # the run says why
            else:
                sizes = [tensor.bytes_of(dimensions[operand] or (0,)) for tensor, operand in self._outputs]
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            self._known[shapes] = sizes
        return sizes


def _has_one_form(served: ServedTensor) -> bool:
    """Return whether a tensor lies in memory as its clients see it."""
    tensor = served.tensor
    return not served.is_value and tensor.stored == served.element_type and not tensor.scalar
