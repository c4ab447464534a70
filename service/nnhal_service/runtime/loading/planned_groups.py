"""Plans of parts of a file whose user computes himself what no device takes.

Each part is imported and planned as a model of its own: whether a device takes a node may depend on what is beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from nnhal.errors import HalError
from nnhal.extensions.onnx import ELEMENT_TYPES, PACKED_TYPES
from nnhal.resolved import operation_name
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal_frontends import ImportLimits, ModelFormat, import_model
from nnhal_frontends.errors import FrontendError, InvalidModel, UnfitShape
from nnhal_frontends.imported import FileNode, ImportedTensor
from nnhal_frontends.weights_pool import Weights
from nnhal_service.partition import Options, PlacementError, Strategy, holding_pins, require_pins
from nnhal_service.partition.node_groups import NodeGraph
from nnhal_service.runtime.loading.planned_model import LoadTarget, PlannedModel, PlannedNodes, UntakenNode, plan_model
from nnhal_service.runtime.plan.layout_choice import LayoutSurveys

_NOTHING: Mapping[str, str] = MappingProxyType({})
_MOST_GROUPS = 256
"""Each group has memory of its own for constants, which takes descriptors; the largest are planned."""
_SEVERAL = "it computes a constant that several groups read"
_EACH = "it computes a constant, as each group does that reads it"
_KEPT = "the client keeps it"
_MOST_ROUNDS = 16
"""How often parts are planned anew without the nodes that were refused; parts that are refused still are given up."""
_PACKED = frozenset(ELEMENT_TYPES[number] for number in PACKED_TYPES & ELEMENT_TYPES.keys())


class FileParts(Protocol):
    """The nodes of a file, and models of some of them."""

    nodes: Sequence[FileNode]
    """In an order of execution."""
    constants: Collection[str]
    """The values that the file gives."""
    is_interpreted: bool
    """True if the caller is an interpreter, which makes groups of all nodes that are taken by a rule of its own. What
    computes constants is then in no group, since an interpreter would run that first.
    """
    model: Any
    """The whole, for ``import_model``."""
    apart: Mapping[int, str]
    """Why nodes cannot be in a part, though they may be in the whole model unless it is shared."""
    is_shared: bool
    """True if other graphs of the file share what the model keeps from run to run."""

    @property
    def operators(self) -> Collection[str]: ...

    def members(self, numbers: Sequence[int], left: Collection[int]) -> tuple[int, ...]:
        """Return the nodes of a part, ascending: with others that compute its constants, unless those are left."""

    def part(self, numbers: Sequence[int]) -> Any:
        """Return the model of some nodes, for ``import_model``. Raises InvalidModel."""

    def value(self, tensor: ImportedTensor) -> str:
        """Return what nodes call an input or output of a part."""

    def refused(self, error: FrontendError) -> Mapping[int, str]:
        """Return the nodes that an import has refused, and why; none if that is unknown."""


class GroupPlanner:
    """Plans the parts of one file."""

    def __init__(
        self,
        file: FileParts,
        limits: ImportLimits,
        target: LoadTarget,
        shapes: Mapping[str, Dimensions],
        weights: Weights = MappingProxyType({}),
        signature: str | None = None,
        keeps: frozenset[int] = frozenset(),
    ) -> None:
        """``weights`` are other files in which the model has values; nodes that the client ``keeps`` are left.

        Raises PlacementError for a malformed pin, or one by number: operations have other numbers in parts;
        InvalidModel if the model has more nodes than ``limits`` allow, or not one of those that are kept.
        """
        if len(file.nodes) > limits.nodes:
            raise InvalidModel(f"the model has {len(file.nodes)} nodes, at most {limits.nodes} are allowed")
        for number in keeps:
            if not 0 <= number < len(file.nodes):
                raise InvalidModel(f"node {number} is to be kept of {len(file.nodes)}")
        for pin in target.options.pins:
            pin.require_form()
            if pin.is_by_number:
                raise PlacementError("a pin by number, expected name:GLOB or op:TYPE if nodes may be left")
        self._weights, self._signature, self._keeps = weights, signature, keeps
        self._file, self._limits, self._shapes = file, limits, shapes
        self._format = ModelFormat.TFLITE if file.is_interpreted else ModelFormat.ONNX
        self._target = replace(target, is_part=True)
        self._graph = NodeGraph(self._file.nodes, self._file.constants)
        self._every = tuple(range(len(self._file.nodes)))
        self._surveys: LayoutSurveys | None = None
        """What devices say of the whole model; None if it cannot be expressed for them."""
        self._left: dict[int, UntakenNode] = {}

    def plan(self) -> tuple[list[PlannedNodes], list[UntakenNode]]:
        """Return the groups in an order of execution, and the nodes in none, ascending.

        Raises LookupError for a device that the fleet does not know, PlacementError for a pin that cannot be kept,
        UnfitShape for a shape that the user gives and that no input has; DEVICE_UNAVAILABLE if nodes would be left, and
        a device that may be used does not answer.
        """
        before = self._connected(answering=False)
        self._leave(self._keeps, _KEPT)
        is_divided = self._file.is_shared or bool(self._left)
        planned = {self._every: None if is_divided else self._planned(self._every, self._every)}
        groups: dict[tuple[int, ...], Sequence[int]] = {self._every: self._every}
        if planned[self._every] is None:
            for index, reason in self._file.apart.items():
                self._leave([index], reason)
        operations = self._require_pins() if self._surveys is not None else ()
        for turn in range(_MOST_ROUNDS):
            if all(planned[group] is not None for group in groups):
                break
            groups = self._groups(operations)
            for group in sorted(groups, key=len)[:-_MOST_GROUPS]:
                planned[group] = None
                said = f"there are {len(groups)} groups, of which the {_MOST_GROUPS} largest are planned"
                self._leave(groups[group], said)
            for group, nodes in groups.items():
                if group not in planned:
                    planned[group] = self._planned(nodes, group, gives_up=turn == _MOST_ROUNDS - 1)
        found = [
            PlannedNodes(nodes, model, group)
            for group, nodes in groups.items()
            if (model := planned[group]) is not None
        ]
        inside = {node for group in found for node in group.nodes}
        outside = [index for index in self._every if index not in inside]
        for index in reversed(outside):  # what is left yet computes constants, and follows what reads them
            readers = sorted(self._graph.readers[index])
            left = next((self._left[reader] for reader in readers if reader in self._left), None)
            readers_words = (_EACH if self._file.is_interpreted else _SEVERAL) if readers else "no node reads it"
            if left is not None:
                is_constant = left.index in self._graph.constant
                readers_words = (
                    left.reason if is_constant else f"node {left.index} reads it, and is left: {left.reason}"
                )
            self._leave([index], readers_words)
        if not self._keeps.issuperset(outside):
            self._require_devices(before)
        return found, [self._left[index] for index in outside]

    def _connected(self, answering: bool) -> Mapping[str, object]:
        """The devices that may be used, and the session with each; only those that are ``answering`` now, or all."""
        available = self._target.fleet.available(self._target.devices, answering)
        return {member.name: member.remote for member in available}

    def _require_devices(self, before: Mapping[str, object]) -> None:
        """Refuse what no device takes as the client's error, but not what a device cannot be asked about. ``before``
        planning the devices had these sessions.
        """
        fleet, now = self._target.fleet, self._connected(answering=True)
        wanted = [name for name in self._target.devices or fleet.names if name not in fleet.withdrawn]
        gone = [name for name in wanted if now.get(name) is None or now[name] is not before.get(name)]
        if gone:
            said = f"nodes would be left, and {', '.join(gone)} cannot be asked about them: a device does not answer"
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, said)

    def _groups(self, operations: Sequence[Collection[int]]) -> dict[tuple[int, ...], Sequence[int]]:
        """Return the groups of the nodes that are not left yet, by all that their models are made of."""
        taken = {node for node in self._every if node not in self._left}
        if self._file.is_interpreted:
            found = self._graph.subsets(taken - self._graph.constant)
        else:
            clusters = self._graph.clusters(nodes for each in operations if (nodes := taken.intersection(each)))
            found = self._graph.groups(taken, clusters)
        return {self._file.members(nodes, self._left): nodes for nodes in found}

    def _planned(self, nodes: Sequence[int], members: tuple[int, ...], gives_up: bool = False) -> PlannedModel | None:
        """Plan some nodes as a model, with those that compute constants for them. If they cannot be one, leave those
        that hinder it, and return None.
        """
        least = self._target.options.min_nodes_per_partition
        if len(nodes) < least:
            self._leave(nodes, f"its group has {len(nodes)} nodes, and min_nodes_per_partition is {least}")
            return None
        is_whole, target, surveys = members == self._every, self._target, list[LayoutSurveys]()
        if not is_whole and target.cache is not None:
            target = replace(target, cache=target.cache.of_variant(f"nodes {members}"))
        try:
            read = partial(
                import_model,
                self._file.model if is_whole else self._file.part(members),
                self._format,
                limits=self._limits,
                weights=self._weights,
                signature=self._signature if is_whole else None,
            )
            model = plan_model(read, target, self._shapes if is_whole else None, surveys.append)
        except UnfitShape:
            raise
        except FrontendError as error:
            refused = {} if gives_up else self._file.refused(error)
            for index in refused.keys() & members or nodes:
                self._leave([index], refused.get(index, str(error)))
            return None
        except (HalError, PlacementError) as error:
            if gives_up or not surveys or not self._leave_refused(members, surveys[0], error):
                self._leave(nodes, str(error))
            return None
        finally:
            if is_whole and surveys:
                self._surveys = surveys[0]
        return model if self._has_numbers_at_its_border(members, model) else None

    def _require_pins(self) -> Sequence[Collection[int]]:
        """Check that pins match something. Return the nodes of each operation of the whole model."""
        assert self._surveys is not None
        survey, pins = self._surveys.declared, self._target.options.pins
        require_pins(survey.task.model, survey.task.names, survey.candidates, pins)
        return survey.imported.operation_places

    def _leave_refused(self, nodes: Sequence[int], surveys: LayoutSurveys, error: HalError | PlacementError) -> bool:
        """Leave the nodes of operations that no device takes. Return whether there are any."""
        imported, before = surveys.declared.imported, len(self._left)
        if not imported.operation_places:
            return False
        for operation, refusals in _refused(surveys, self._target.options):
            code = imported.model.main.operations[operation].type
            said = f"no device takes it as {operation_name(imported.model, code)}"
            self._leave_operation(nodes, imported.operation_places[operation], said, refusals)
        if len(self._left) == before and isinstance(error, PlacementError) and error.operation is not None:
            self._leave_operation(nodes, imported.operation_places[error.operation], str(error), _NOTHING)
        return len(self._left) > before

    def _leave_operation(
        self, nodes: Sequence[int], places: Collection[int], reason: str, refusals: Mapping[str, str]
    ) -> None:
        """Leave the nodes of an operation. Those that compute its constants go where all that read them are."""
        found = {nodes[place] for place in places}
        self._leave(found - self._graph.constant or found, reason, refusals)

    def _leave(self, nodes: Iterable[int], reason: str, refusals: Mapping[str, str] = _NOTHING) -> None:
        for index in nodes:
            self._left.setdefault(index, UntakenNode(index, self._graph.nodes[index], reason, refusals))

    def _has_numbers_at_its_border(self, nodes: Sequence[int], model: PlannedModel) -> bool:
        """Leave the nodes that read or write other values at the border than tensors of numbers."""
        imported, before = model.sketch.imported, len(self._left)
        for tensor in (*imported.inputs, *imported.outputs):
            if not is_number(tensor):
                is_text = tensor.element_type.kind == "O"
                kind = tensor.kind or f"tensor of {'strings' if is_text else tensor.element_type.name}"
                name = self._file.value(tensor)
                uses = [n for n in nodes if name in (*self._graph.nodes[n].reads, *self._graph.nodes[n].writes)]
                self._leave(uses, f"'{tensor.name}' would pass between it and others, which is a {kind}")
        return len(self._left) == before


def is_number(tensor: ImportedTensor) -> bool:
    """Return whether it may pass between a group and other nodes: strings, sequences and packed elements may not."""
    return tensor.element_type.kind != "O" and tensor.element_type not in _PACKED


def _refused(surveys: LayoutSurveys, options: Options) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the operations of main that no device takes, with channels first or last, and what devices say."""
    declared = surveys.declared
    pins = holding_pins(declared.task.model, declared.task.names, options.pins)
    last = {} if surveys.converted is None else {c.name: c.refusals for c in surveys.converted.candidates}
    numbers: dict[int | None, list[int]] = {}
    for number, origin in enumerate(() if surveys.converted is None else surveys.converted.origins):
        numbers.setdefault(origin, []).append(number)
    for operation in range(len(declared.task.names)):
        said: dict[str, str] = {}
        for candidate in declared.candidates:
            pin = pins.get(operation)
            reason = candidate.refusals.get(operation, "")
            if reason and candidate.name in last:
                own = (last[candidate.name].get(number, "") for number in numbers.get(operation, ()))
                reason = next(filter(None, own), "")
            if pin is not None and pin.device != candidate.name:
                reason = reason or f"pin {pin.match!r} asks for {pin.device}"
            elif options.strategy == Strategy.CPU_ONLY and candidate.name != options.cpu:
                reason = reason or f"only {options.cpu} is to be used"
            if not reason:
                break
            said[candidate.name] = reason
        else:
            yield operation, said
