"""The devices that may take each operation: their refusals, the pins, and what only the CPU runs."""

from __future__ import annotations

from collections.abc import Container, Sequence

from nnhal.errors import HalError
from nnhal.near_names import there_are
from nnhal.resolved import describe_operation
from nnhal.types import ErrorStatus, Model
from nnhal_service.partition.candidate import Candidate, PlacementError
from nnhal_service.partition.control_flow import has_unknown_size, is_control_flow, refers_to_unknown_rank
from nnhal_service.partition.pins import Pin, holding_pins

CPU = "cpu_ref"
"""The device that acts as NNAPI's CPU unless another is named."""


def without_unsized_control_flow(model: Model, candidates: Sequence[Candidate], cpu: str) -> list[Candidate]:
    """Return the candidates, so changed that only the CPU takes IF and WHILE with operands of unknown size."""
    refusal = f"control flow with operands of unknown size is for {cpu} only"
    unsized = {
        index: refusal
        for index, operation in enumerate(model.main.operations)
        if is_control_flow(operation) and has_unknown_size(model, operation)
    }
    return [candidate if candidate.name == cpu else candidate.refusing(unsized) for candidate in candidates]


def cannot_be_offered(model: Model, refused: Container[int]) -> bool:
    """Return whether NNAPI's strict slicing makes a device, which refuses some operations of main, support nothing.

    It does if the device would take an operation that refers to a subgraph with inputs or outputs of unknown rank,
    since such a subgraph cannot be offered to it. The rule does not apply to the CPU.
    """
    return any(
        index not in refused and refers_to_unknown_rank(model, operation)
        for index, operation in enumerate(model.main.operations)
    )


def strictly_sliced(model: Model, candidates: Sequence[Candidate], cpu: str) -> list[Candidate]:
    """Return the candidates. Those to which the model cannot be offered refuse every operation."""
    return [
        _refusing_all(model, candidate)
        if candidate.name != cpu and cannot_be_offered(model, candidate.refusals)
        else candidate
        for candidate in candidates
    ]


def _refusing_all(model: Model, candidate: Candidate) -> Candidate:
    reason = "the model refers to subgraphs of unknown rank"
    for number, graph in enumerate((model.main, *model.referenced[: len(candidate.referenced)])):
        candidate = candidate.refusing(dict.fromkeys(range(len(graph.operations)), reason), number)
    return candidate


def require_pins(
    model: Model, names: Sequence[Sequence[str]], candidates: Sequence[Candidate], pins: Sequence[Pin]
) -> None:
    """Raise PlacementError if a pin names an unknown device or matches no node."""
    known = {candidate.name for candidate in candidates}
    for pin in pins:
        if pin.device not in known:
            raise PlacementError(f"pin {pin.match!r}: no device {pin.device!r}; {there_are(pin.device, sorted(known))}")
        if not holding_pins(model, names, [pin]):
            raise PlacementError(f"pin {pin.match!r} matches no node of the model")


def supporting(
    model: Model, names: Sequence[Sequence[str]], candidates: Sequence[Candidate], pins: Sequence[Pin]
) -> list[list[Candidate]]:
    """Return the candidates that may take each operation, in order.

    Raises PlacementError if there are none; the status of a device that could not answer, if it may take them later.
    """
    pinned = holding_pins(model, names, pins)
    able = []
    for index in range(len(model.main.operations)):
        pin = pinned.get(index)
        asked = [c for c in candidates if pin is None or pin.device == c.name]
        able.append([candidate for candidate in asked if index not in candidate.refusals])
        if not able[-1]:
            said = "; ".join(f"{c.name}: {c.refusals[index]}" for c in asked) or "there are no devices"
            asks = "" if pin is None else f"; pin {pin.match!r} asks for {pin.device}"
            what = ", node ".join((describe_operation(model, index), *filter(None, [" + ".join(names[index])])))
            refusal = f"no device takes {what}: {said}{asks}"
            unanswered = [c.unanswered for c in asked if c.unanswered != ErrorStatus.NONE]
            if unanswered:
                raise HalError(unanswered[0], refusal)
            raise PlacementError(refusal, index)
    return able
