"""Reduce the layer that makes an error to the least model that still has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.types import OperandLifeTime, OperationType
from nnhal.types.layout import is_extension
from nnhal_tools.conformance.compare import mismatch
from nnhal_tools.conformance.vectors import Vector, vector_of
from nnhal_tools.conformance.written import vector_line
from nnhal_tools.diff.comparison import Comparison
from nnhal_tools.diff.device_side import DeviceSide, EndedError
from nnhal_tools.diff.report import MADE, DiffReport, Reduced
from nnhal_tools.diff.subject import ComparedLayer, Subject, Values
from nnhal_tools.distance import Limits, judged
from nnhal_tools.shrink import Branch, Case, Shrunk, shrink

_GROUP = "nnhal diff"


def shrunk(comparison: Comparison, report: DiffReport, reference: DeviceSide) -> DiffReport:
    """Return the report with the first layer that makes an error and can be reduced, or with a note that none can be.

    ``reference`` says what smaller models compute. Raises DeadObjectError if a device is gone.
    """
    made = {layer.number for layer in report.over if layer.origin == MADE and layer.runs_on == comparison.dut.name}
    if not made:
        return _noted(report, f"nothing to reduce: no layer on {comparison.dut.name} makes an error over the limits")
    judge = _Judge(reference, comparison.dut, comparison.limits, comparison.half)
    left: list[str] = []
    for layer in comparison.layers:
        if layer.number in made:
            judge = replace(judge, end=next(each.made_problem for each in report.over if each.number == layer.number))
            found = _least(comparison, layer, judge)
            if isinstance(found, Shrunk):
                return _with(_left_out(report, left), layer, found, judge)
            left.append(f"layer {layer.number} is not reduced: {found}")
    return _left_out(report, left)


def _least(comparison: Comparison, layer: ComparedLayer, judge: _Judge) -> Shrunk | str:
    """Return the least form of a layer that fails on any sample, or why there is none."""
    if reason := _inexpressible(comparison.subject, layer):
        return reason
    for sample in (*comparison.wanted.samples, *comparison.harder.get(layer.number, ())):
        try:
            found = shrink(_case(comparison.subject, layer, sample), judge)
        except HalError as error:
            return error.message
        if found is not None:
            return found
    return f"by itself it is within the limits of what {judge.reference.name} computes"


def _left_out(report: DiffReport, reasons: Sequence[str]) -> DiffReport:
    """Note why layers before the reduced one are not: the first of them, and how many more there are."""
    if not reasons:
        return report
    more = f"; nor are {len(reasons) - 1} more layers that make errors" if len(reasons) > 1 else ""
    return _noted(report, f"{reasons[0]}{more}")


@dataclass(frozen=True, slots=True)
class _Judge:
    reference: DeviceSide
    dut: DeviceSide
    limits: Limits
    half: bool
    end: str = ""
    """How the device dies of the layer, in words; empty if it does not."""

    def fails(self, case: Case) -> bool:
        model = case.model()
        try:
            wanted, got = (side.run_model(model, case.given) for side in (self.reference, self.dut))
        except EndedError as error:
            return error.message == self.end
        except HalError:
            return False
        return not self.end and any(
            one.shape == other.shape and self._is_over(case, operand, one, other)
            for operand, one, other in zip(case.outputs, got, wanted, strict=True)
        )

    def inner_values(self, case: Case) -> Mapping[int, Array]:
        shown = replace(case, outputs=case.computed)
        return dict(zip(shown.outputs, self.reference.run_model(shown.model(), shown.given), strict=True))

    def _is_over(self, case: Case, operand: int, got: Array, wanted: Array) -> bool:
        inputs = {str(number): (case.operands[number], [case.values[number]]) for number in case.inputs}
        _, over = judged(self.limits, case.operands[operand], self.half, [got], [wanted], inputs)
        return bool(over)


def _inexpressible(subject: Subject, layer: ComparedLayer) -> str:
    """Say why vectors cannot express a layer; empty if they can."""
    for number in layer.operations:
        node = subject.model.main.operations[number]
        if is_extension(node.type):
            return f"conformance vectors have operations of the HAL only, got {subject.kind(number)}"
        refers = any(subject.operand(operand).lifetime == OperandLifeTime.SUBGRAPH for operand in node.inputs)
        if refers and any(is_extension(inner.type) for graph in subject.model.referenced for inner in graph.operations):
            return f"conformance vectors have operations of the HAL only, and {subject.kind(number)} runs others"
    return ""


def _case(subject: Subject, layer: ComparedLayer, sample: Values) -> Case:
    main = subject.model.main
    constants, *branches = subject.imported.resolved().constants
    return Case(
        tuple(
            replace(operand, dimensions=known) for operand, known in zip(main.operands, subject.dimensions, strict=True)
        ),
        tuple(main.operations[number] for number in layer.operations),
        layer.inputs,
        layer.outputs,
        {**constants, **{operand: sample[operand] for operand in layer.inputs}},
        subject.model.relax_computation_float32_to_float16,
        branches=tuple(Branch(graph, values) for graph, values in zip(subject.model.referenced, branches, strict=True)),
        names=tuple(subject.imported.operand_names),
    ).ending_at(layer.outputs)


def _with(report: DiffReport, layer: ComparedLayer, found: Shrunk, judge: _Judge) -> DiffReport:
    case, model = found.case, found.case.model()
    wanted = judge.reference.run_model(model, case.given)
    vector = vector_of(f"{report.model}: layer {layer.number}", _GROUP, model, case.given, wanted)
    vector = replace(vector, names=case.names, **_what_fails(vector, judge))
    reduced = Reduced(
        layer.number,
        tuple(OperationType(operation.type).name for operation in case.operations),
        tuple(case.operands[operand].dimensions for operand in case.inputs),
        found.tries,
        found.is_least,
        vector_line(vector),
    )
    return replace(report, reduced=reduced)


def _what_fails(vector: Vector, judge: _Judge) -> dict[str, Any]:
    """Return the limits that a vector needs to fail as the layer does: those of the command, unless those of
    conformance tests, which a vector has without any, do.
    """
    if judge.end:
        return {"seconds": judge.dut.seconds}
    given = [values for values in vector.inputs if values is not None]
    got = judge.dut.run_model(vector.model, given)
    fails = any(mismatch(one, other.reshape(-1), other.shape) for one, other in zip(vector.outputs, got, strict=True))
    return {} if fails and not judge.limits.given else {"limits": judge.limits}


def _noted(report: DiffReport, note: str) -> DiffReport:
    return replace(report, notes=(*report.notes, note))
