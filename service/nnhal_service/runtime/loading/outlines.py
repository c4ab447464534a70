"""Outlines of loaded models: what users see of one and by which plan it runs, kept beside its compilations.

With both, a model is loaded without being imported, assessed or planned: the devices have all that it computes. An
outline is a text in JSON and a model of the HAL, which has what the steps read and write, and one operation for each
step, which stands for those of the step and is never executed. A digest of both comes first. It is found by all that
the plan follows from: the file, the options, and what the devices say of themselves. A problem with an outline never
fails a load: the model is imported then.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any, NoReturn

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.calibration import DeviceCalibration
from nnhal.codec import model_from_wire, model_to_wire
from nnhal.errors import HalError
from nnhal.extensions import onnx
from nnhal.given_files import parse_json, read_given_file
from nnhal.private_folders import make_private_folder
from nnhal.remote import DeviceDescription, DeviceIdentity
from nnhal.types import (
    NO_DEADLINE,
    ExtensionNameAndPrefix,
    Model,
    OperandLifeTime,
    Operation,
    Subgraph,
    TransferCosts,
)
from nnhal.v1 import model_pb2
from nnhal.whole_files import write_whole
from nnhal_frontends import ImportLimits
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import (
    EdgeCost,
    Fallback,
    Options,
    Partitioning,
    Plan,
    PlanCost,
    PlanReport,
    Refined,
    Step,
    StepCost,
)
from nnhal_service.runtime.devices.fleet import FleetMember
from nnhal_service.runtime.plan.compilation_cache import CacheDirectory, file_names
from nnhal_service.runtime.plan.layout_choice import LayoutSurveys
from nnhal_service.runtime.plan.sketch import ImageLayout, PlanChoice, SketchedPlan, sketch_of
from nnhal_service.runtime.plan.survey import survey_unasked

_FORM = "outline 3"
_KIND = "3"
"""The kind of its file, beside those of compilations."""
_DIGEST_BYTES, _LENGTH_BYTES = 32, 8
_MOST_BYTES = 16 << 20
_MOST_DEVICES = 64
_NUMBERS = ("operations", "inputs", "outputs", "downstream")
"""What a step says of operations and operands by their numbers."""
_PASSED = {
    OperandLifeTime.SUBGRAPH_INPUT,
    OperandLifeTime.TEMPORARY_VARIABLE,
    OperandLifeTime.SUBGRAPH_OUTPUT,
}
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelOutline:
    """A model that was loaded before. It has one operation for each step, which stands for those of the step."""

    imported: ImportedModel
    """The model with the operands that pass between steps, and to and from the client."""
    partitioning: Partitioning
    operations: tuple[tuple[int, ...], ...]
    """Those of each step, by their numbers in the model."""
    images: ImageLayout | None
    is_whole: bool = False
    """True if its device was given the file as it is."""

    @classmethod
    def of(cls, sketch: SketchedPlan) -> ModelOutline | None:
        """The outline of a plan; None if it has control flow, a state, values that pass in another type than their own,
        elements that have no name, or dimensions that follow from others by its operations; or if a device that it
        might use was left out.
        """
        imported, plan, choice, report = sketch.imported, sketch.plan, sketch.choice, sketch.refined.partitioning.report
        model, main = imported.model, imported.model.main
        is_plain = not (imported.states or plan.walk or plan.carried or choice.left_out)
        is_plain &= not (choice.pins and choice.images is not None)  # pins may be renumbered
        is_plain &= not set(main.input_indexes) & set(main.output_indexes)
        tensors = (*imported.inputs, *imported.outputs, *imported.optional_inputs)
        if not is_plain or any(np.dtype(each.element_type.str) != each.element_type for each in tensors):
            return None
        passed = {*main.input_indexes, *main.output_indexes}.union(*((*s.inputs, *s.outputs) for s in plan.steps))
        passed.update(tensor.operand for tensor in (*imported.inputs, *imported.outputs))
        passed.update(edge.operand for edge in (() if report is None else report.cost.edges))
        place = {number: place for place, number in enumerate(sorted(passed))}
        operands = tuple(replace(main.operands[n], dimensions=sketch.dimensions[n]) for n in place)
        if any(each.lifetime not in _PASSED for each in operands):
            return None
        is_one = len(main.operations) == 1 and main.operations[0].type == onnx.OPERATION
        if not is_one and any(not each.dimensions or 0 in each.dimensions for each in operands):
            return None

        def placed(numbers: Sequence[int]) -> tuple[int, ...]:
            return tuple(place[number] for number in numbers)

        def moved(tensors: Sequence[ImportedTensor]) -> tuple[ImportedTensor, ...]:
            return tuple(replace(tensor, operand=place[tensor.operand]) for tensor in tensors)

        graph = Subgraph(operands, (), placed(main.input_indexes), placed(main.output_indexes))
        steps = [
            replace(s, inputs=placed(s.inputs), outputs=placed(s.outputs), downstream=placed(s.downstream))
            for s in plan.steps
        ]
        if report is not None:
            edges = tuple(replace(edge, operand=place[edge.operand]) for edge in report.cost.edges)
            report = replace(report, cost=replace(report.cost, edges=edges))
        outlined = ImportedModel(
            replace(model, main=graph, referenced=(), operand_values=b"", pools=()),
            moved(imported.inputs),
            moved(imported.outputs),
            ((),) * len(steps),
            (),
            tuple(sketch.survey.value_names[number] for number in place),
            imported.warnings,
            signatures=imported.signatures,
            node_count=imported.node_count,
            optional_inputs=imported.optional_inputs,
        )
        return cls.made(outlined, steps, plan.fallback, report, choice.images)

    @classmethod
    def made(
        cls,
        imported: ImportedModel,
        steps: Sequence[Step],
        fallback: Fallback,
        report: PlanReport | None,
        images: ImageLayout | None,
    ) -> ModelOutline:
        """Make one of a model without operations, and of steps that name these by number: the model gets one for each
        step, and each step gets the model.
        """
        names = {entry.name: entry for entry in imported.model.extension_name_to_prefix}
        names.setdefault(onnx.NAME, ExtensionNameAndPrefix(onnx.NAME, onnx.PREFIX))
        operations = tuple(Operation(onnx.OPERATION, step.inputs, step.outputs) for step in steps)
        main = replace(imported.model.main, operations=operations)
        model = replace(imported.model, main=main, extension_name_to_prefix=tuple(names.values()))
        standing = (
            replace(step, model=model, source=step.source and model, operations=(number,))
            for number, step in enumerate(steps)
        )
        partitioning = Partitioning(Plan(tuple(standing), fallback), report)
        return cls(replace(imported, model=model), partitioning, tuple(step.operations for step in steps), images)

    def surveys(
        self, members: Mapping[str, FleetMember], descriptions: Mapping[str, DeviceDescription | None]
    ) -> LayoutSurveys:
        """Return what is known of the devices without asking them. Raises HalError if it contradicts itself."""
        devices = dict.fromkeys(step.device for step in self.partitioning.plan.steps)
        return LayoutSurveys(survey_unasked(self.imported, members, descriptions, devices), None)

    def sketch(self, surveys: LayoutSurveys, options: Options) -> SketchedPlan:
        survey, choice = surveys.declared, PlanChoice(options.pins, frozenset(), self.images)
        return sketch_of(survey, Refined(self.partitioning, tuple(survey.candidates), ()), choice)


class OutlinePlace:
    """Place of a model's outline, if it is kept."""

    def __init__(
        self,
        directory: CacheDirectory,
        limits: ImportLimits,
        options: Options,
        members: Mapping[str, FleetMember],
        descriptions: Mapping[str, DeviceDescription | None],
    ) -> None:
        """``limits`` are those that the file is imported within, ``members`` the devices that are planned over."""
        devices = [
            (name, _facts_of(member.identity, descriptions[name], member.calibration))
            for name, member in members.items()
        ]
        what = (_FORM, _version(), limits, replace(options, deadline_ns=NO_DEADLINE), devices)
        self._directory = directory.path
        self._path = directory.path / file_names(directory.of_variant(repr(what)).token, _KIND, 1)[0]

    def keep(self, outline: ModelOutline) -> None:
        """Keep an outline. A failure is logged."""
        content = _encoded(outline)
        try:
            make_private_folder(self._directory)
            write_whole(self._path, sha256(content).digest() + content)
        except (OSError, ValueError) as error:
            _log.warning("the outline of a file cannot be kept", reason=str(error))

    def kept(self) -> ModelOutline | None:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, DecodeError, HalError):
            make_private_folder(self._directory)
            found = read_given_file(self._path, _MOST_BYTES, "an outline", follows=False)
            content = found[_DIGEST_BYTES:]
            if sha256(content).digest() == found[:_DIGEST_BYTES]:
                return _decoded(content)
        return None


@cache
def _version() -> str:
    return version("nnhal")


@lru_cache(_MOST_DEVICES)
def _facts_of(
    identity: DeviceIdentity, description: DeviceDescription | None, calibration: DeviceCalibration | None
) -> str:
    """All that plans follow from, but for what a network costs: it is measured anew by each connection."""
    if description is not None and description.transfer_costs.is_wire:
        description = replace(description, transfer_costs=TransferCosts())
    known = [each and asdict(each) for each in (identity, description, calibration)]
    return json.dumps(known, default=sorted)  # sets are listed in another order by each process


def _encoded(outline: ModelOutline) -> bytes:
    imported, plan, report = outline.imported, outline.partitioning.plan, outline.partitioning.report
    text = json.dumps(
        {
            "inputs": [_tensor_to_json(tensor) for tensor in imported.inputs],
            "outputs": [_tensor_to_json(tensor) for tensor in imported.outputs],
            "optional": [_tensor_to_json(tensor) for tensor in imported.optional_inputs],
            "names": imported.operand_names,
            "warnings": imported.warnings,
            "signatures": imported.signatures,
            "nodes": imported.node_count,
            "steps": [_step_to_json(*each) for each in zip(plan.steps, outline.operations, strict=True)],
            "fallback": plan.fallback.value,
            "report": report,
            "images": outline.images,
            "is_whole": outline.is_whole,
        },
        default=_fields_of,
    ).encode()
    graph = replace(imported.model.main, operations=())
    message = model_to_wire(replace(imported.model, main=graph), _no_pool).SerializeToString()
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + message


def _decoded(content: bytes) -> ModelOutline:
    """Raises DecodeError, HalError, LookupError, TypeError and ValueError for what ``_encoded`` does not make."""
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    text = parse_json(content[_LENGTH_BYTES:end])
    model = model_from_wire(model_pb2.Model.FromString(content[end:]), _no_pool)
    imported = ImportedModel(
        model,
        tuple(map(_tensor_from_json, text["inputs"])),
        tuple(map(_tensor_from_json, text["outputs"])),
        ((),) * len(text["steps"]),
        (),
        tuple(text["names"]),
        tuple(text["warnings"]),
        signatures=tuple(text["signatures"]),
        node_count=text["nodes"],
        optional_inputs=tuple(map(_tensor_from_json, text["optional"])),
    )
    steps = [_step_from_json(step, model) for step in text["steps"]]
    report = text["report"] and _report_from_json(text["report"])
    images = text["images"] and ImageLayout(**{**text["images"], "wanting": tuple(text["images"]["wanting"])})
    made = ModelOutline.made(imported, steps, Fallback(text["fallback"]), report, images)
    return replace(made, is_whole=text["is_whole"])


def _fields_of(given: Any) -> Mapping[str, object]:
    return {field.name: getattr(given, field.name) for field in fields(given)}


def _step_to_json(step: Step, operations: tuple[int, ...]) -> Mapping[str, object]:
    numbers = {name: getattr(step, name) for name in _NUMBERS}
    return {"device": step.device, "in_words": step.source is not None, **numbers, "operations": operations}


def _step_from_json(given: Mapping[str, Any], model: Model) -> Step:
    operations, inputs, outputs, downstream = (tuple(given[name]) for name in _NUMBERS)
    source = model if given["in_words"] else None
    return Step(given["device"], model, operations, inputs, outputs, downstream, source=source)


def _report_from_json(given: Mapping[str, Any]) -> PlanReport:
    cost = given["cost"]
    steps = tuple(StepCost(**{**step, "operations": tuple(step["operations"])}) for step in cost["steps"])
    return PlanReport(**{**given, "cost": PlanCost(steps, tuple(EdgeCost(**edge) for edge in cost["edges"]))})


def _tensor_to_json(tensor: ImportedTensor) -> Mapping[str, object]:
    return {
        "name": tensor.name,
        "operand": tensor.operand,
        "element_type": tensor.element_type.str,
        "shape": tensor.shape,
        "kind": tensor.kind,
        "index": tensor.index,
    }


def _tensor_from_json(given: Mapping[str, Any]) -> ImportedTensor:
    return ImportedTensor(**{**given, "element_type": np.dtype(given["element_type"]), "shape": tuple(given["shape"])})


def _no_pool(_: object) -> NoReturn:
    raise ValueError("an outline has no pools")
