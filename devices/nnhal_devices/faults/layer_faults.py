"""Faults of layers: runs in which what a layer has written is altered before the next ones read it, or in which it
takes long, fails, hangs or kills the process.

Whatever the device computes with, layers that have faults are computed by the interpreter of cpu_ref beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError, general_failure
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.support import Unsupported
from nnhal.types import Model
from nnhal_devices.arguments import read_argument, write_argument
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.cpu_ref.extension import element_type
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Argument, Control, Outcome
from nnhal_devices.faults.fault_set import ActiveFault, layers_of_fault
from nnhal_devices.faults.injection import DeviceFaults, fault_words, log_fault
from nnhal_devices.faults.model_facts import ModelFacts, ModelLayer
from nnhal_devices.faults.outcomes import spoil
from nnhal_hosting.faults import LayerCondition, ValuesFault


def about_layers(met: Sequence[ActiveFault]) -> list[ActiveFault]:
    return [each for each in met if isinstance(each.fault, LayerCondition) and each.fault.layer]


class LayerFaults:
    """Faults of layers that one run of a model meets."""

    def __init__(
        self, met: Sequence[ActiveFault], model: ResolvedModel, facts: ModelFacts, faults: DeviceFaults
    ) -> None:
        """``met`` are one or more."""
        self._model = model
        self._faults = faults
        self._about: dict[tuple[int, int, str], list[ActiveFault]] = {}
        """The faults of a layer, by its subgraph, its operation and, of a node, its place."""
        self._altered_layers = set[tuple[int, int]]()
        """The operations, by subgraph and number, in which values are altered."""
        self._control = Control()
        self._failure: HalError | None = None
        for active in met:
            fault = active.fault
            assert isinstance(fault, LayerCondition)
            layers = layers_of_fault(fault, facts)
            how: str = fault.what
            if isinstance(fault, ValuesFault):
                how = fault.how
                self._altered_layers.update((layer.subgraph, layer.number) for layer in layers)
            log_fault(active, facts, f"{how} in {_names(model.model, layers)}")
            for layer in layers:
                self._about.setdefault((layer.subgraph, layer.number, layer.place), []).append(active)
        self._words = fault_words(met[0])

    def outputs(self, inputs: Sequence[Argument], control: Control) -> Mapping[int, Array]:
        """Return the outputs that depend on altered values, by number. Raises HalError."""
        self._control = control
        model = self._model.model
        for number, answer in enumerate(CpuRef().supported_operations(self._model)):
            if isinstance(answer, Unsupported):
                place = describe_operation(model, number)
                general_failure(f"{self._words}: layers cannot be wrong in a model with {place}, which cpu_ref lacks")
        main = model.main
        given = [
            read_argument(argument, element_type(model, main.operands[index].type))
            for argument, index in zip(inputs, main.input_indexes, strict=True)
        ]
        try:
            results = Interpreter(self._model, self).run(0, given, control)
        except HalError as error:
            if self._failure is not None:
                raise self._failure from error
            control.check()
            raise HalError(error.status, f"{self._words}: {error.message}") from error
        # A result may be a view of an input, which the device's own run may overwrite.
        return {number: np.array(results[number]) for number in self._dependent()}

    def results(self, subgraph: int, operation: int, results: Sequence[Array]) -> tuple[Array, ...]:
        """Alter the results of an operation: see Alteration."""
        return tuple(self._altered((subgraph, operation, ""), results))

    def node_results(self, subgraph: int, operation: int, place: str, results: Sequence[Any]) -> tuple[Any, ...]:
        """Alter the results of a node: see Alteration. Only arrays of numbers are."""
        return tuple(self._altered((subgraph, operation, place), results))

    def _altered(self, layer: tuple[int, int, str], results: Sequence[Any]) -> list[Any]:
        altered = list(results)
        for active in self._about.get(layer, ()):
            if not isinstance(active.fault, ValuesFault):
                self._meet(active)
                continue
            for number, values in enumerate(altered):
                if active.fault.output in (None, number) and _is_of_numbers(values):
                    altered[number] = wrong = np.array(values, order="C")  # so that reshaping makes a view
                    spoil(wrong.reshape(-1).view(np.uint8), wrong.dtype, active, self._faults)
        return altered

    def _meet(self, active: ActiveFault) -> None:
        try:
            self._faults.do([active], None, self._control, is_logged=False)
        except HalError as error:
            self._failure = error  # what computes graphs makes another error of it
            raise

    def _dependent(self) -> list[int]:
        """The numbers of the outputs that depend on altered layers; all of them if one is in a referenced subgraph."""
        main, about = self._model.model.main, self._altered_layers
        everything = any(subgraph for subgraph, _ in about)
        reached: set[int] = set()
        for number, operation in enumerate(main.operations):
            if (0, number) in about or not reached.isdisjoint(operation.inputs):
                reached.update(operation.outputs)
        return [number for number, index in enumerate(main.output_indexes) if everything or index in reached]


def with_outputs(wrong: Mapping[int, Array], outcome: Outcome, outputs: Sequence[Argument]) -> Outcome:
    """Write wrong outputs, by number, in the place of those that a device has computed; return what the outcome is."""
    dimensions = list(outcome.dimensions or (argument.dimensions for argument in outputs))
    for number, values in wrong.items():
        write_argument(outputs[number], values)
        dimensions[number] = values.shape
    return replace(outcome, dimensions=tuple(dimensions))


def _is_of_numbers(values: object) -> bool:
    return isinstance(values, np.ndarray | np.generic) and values.dtype.kind in "biuf"


def _names(model: Model, layers: Sequence[ModelLayer]) -> str:
    first = layers[0]
    place = describe_operation(model, first.number, first.subgraph)
    if first.place:
        place = f"{first.type} {first.names[0]!r} of {place}"
    return place if len(layers) == 1 else f"{len(layers)} layers, of which the first is {place}"
