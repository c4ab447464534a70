"""Outcomes of executions that faults alter: wrong values, wrong dimensions, and a slow clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.resolved import ResolvedModel
from nnhal.types import ExecutionResult, OutputShape
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, is_extension
from nnhal_devices.driver import Argument, Control, Outcome
from nnhal_devices.faults.fault_set import ActiveFault
from nnhal_devices.faults.injection import DeviceFaults, delay, log_fault
from nnhal_devices.faults.model_facts import ModelFacts
from nnhal_hosting.faults import ShapesFault, SlowClockFault, ValuesFault


class DoneExecution(NamedTuple):
    """An execution that has succeeded."""

    model: ResolvedModel
    facts: ModelFacts
    faults: DeviceFaults
    outputs: Sequence[Argument]
    took_ns: int
    control: Control


def altered_outcome(outcome: Outcome, met: Sequence[ActiveFault], executed: DoneExecution) -> Outcome:
    """Do to an outcome what some faults say; return what it is then. Raises HalError."""
    for active in met:
        fault = active.fault
        if isinstance(fault, ValuesFault) and not fault.layer:
            log_fault(active, executed.facts, fault.how)
            for number, data, kind in _written(outcome, executed):
                if fault.output is None or fault.output == number:
                    spoil(data, kind, active, executed.faults)
        elif isinstance(fault, SlowClockFault):
            log_fault(active, executed.facts, f"{fault.factor:g} times as long")
            modelled = outcome.time_on_device_ns
            delay((executed.took_ns if modelled is None else modelled) * (fault.factor - 1) / 1e9, executed.control)
            if modelled is not None:
                outcome = replace(outcome, time_on_device_ns=int(modelled * fault.factor))
    return outcome


def altered_result(
    result: ExecutionResult, known: Sequence[Dimensions], met: Sequence[ActiveFault], facts: ModelFacts
) -> ExecutionResult:
    """Return a result that contradicts the model; ``known`` are the dimensions of its outputs as bound."""
    shapes = list(result.output_shapes or map(OutputShape, known))
    for active in met:
        fault = active.fault
        if isinstance(fault, ShapesFault) and shapes:
            log_fault(active, facts, fault.wrong)
            if fault.wrong == "count":
                shapes.append(shapes[-1])
            else:
                *rest, last = shapes[0].dimensions or (0,)
                shapes[0] = replace(shapes[0], dimensions=(*rest, last + 1))
    return replace(result, output_shapes=tuple(shapes))


def _written(outcome: Outcome, executed: DoneExecution) -> Iterator[tuple[int, Bytes, np.dtype[np.generic] | None]]:
    """The number, the bytes and the type of the elements of each output that the host can reach."""
    main = executed.model.model.main
    for number, (index, argument) in enumerate(zip(main.output_indexes, executed.outputs, strict=True)):
        code = main.operands[index].type
        if argument.data is None or not len(argument.data):
            continue
        kind = None if is_extension(code) else ELEMENT_TYPES[code]
        size = len(argument.data)
        dimensions = outcome.dimensions[number] if number < len(outcome.dimensions) else argument.dimensions
        if kind is not None and all(dimensions):
            size = min(size, int(np.prod(dimensions, dtype=np.int64)) * kind.itemsize)
        yield number, argument.data[:size], kind


def spoil(data: Bytes, kind: np.dtype[np.generic] | None, active: ActiveFault, faults: DeviceFaults) -> None:
    """Make values wrong that lie in some memory, as a fault says. ``kind`` is the type of their elements, if known."""
    fault = active.fault
    assert isinstance(fault, ValuesFault)
    if fault.how == "bit_flips":
        for bit in faults.set.drawn_bits(active, 8 * len(data), fault.flips):
            data[bit // 8] ^= np.uint8(1 << bit % 8)
        return
    if kind is None or len(data) % kind.itemsize:
        return
    values: Array = np.empty(len(data) // kind.itemsize, kind)
    if fault.how == "nan":
        if not np.issubdtype(kind, np.floating):
            return
        values[:] = np.nan
    else:
        values[:] = _largest(kind)
    data[:] = values.view(np.uint8)


def _largest(kind: np.dtype[Any]) -> Any:
    """The largest finite value of a type."""
    if kind == np.bool_:
        return True
    return np.finfo(kind).max if np.issubdtype(kind, np.floating) else np.iinfo(kind).max
