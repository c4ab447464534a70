"""Answers to a client about an execution's runs: the dimensions of its outputs, and whether they have fitted."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod

from nnhal.errors import general_failure
from nnhal.resolved import ResolvedModel
from nnhal.types import ExecutionResult, OutputShape
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, describe, fits, fully_specified, is_extension
from nnhal_devices.driver import DONE, Argument, Outcome

SUCCESS = ExecutionResult()


class RunResults:
    """Makes the results of one execution. Not safe to use from several threads."""

    def __init__(self, model: ResolvedModel, element_sizes: Mapping[int, int]) -> None:
        """``element_sizes`` are those of the model's extension types, by operand code."""
        main = model.model.main
        self._types = [main.operands[index].type for index in main.output_indexes]
        self._element_sizes = element_sizes
        self._last_outcome, self._last_result = DONE, SUCCESS

    def unknown_output(self, outputs: Sequence[Argument], but: Container[int] = ()) -> int | None:
        """Return the first output with a dimension that is unknown before a run; None if there is none ``but`` some."""
        for number, (code, argument) in enumerate(zip(self._types, outputs, strict=True)):
            if number in but:
                continue
            if argument.data is not None and not is_extension(code) and not fully_specified(code, argument.dimensions):
                return number
        return None

    def forget(self) -> None:
        """Forget the last result: the outputs have been bound to other memory."""
        self._last_outcome = DONE

    def of(self, outcome: Outcome, outputs: Sequence[Argument]) -> ExecutionResult:
        """The result of an outcome, given the bound outputs: the same object for the same outcome.

        The answer to it is thus encoded once. Raises GENERAL_FAILURE if dimensions contradict those of an output.
        """
        if not outcome.dimensions:
            return SUCCESS
        if outcome is not self._last_outcome:
            shapes = tuple(
                self._shape(number, dimensions, argument)
                for number, (dimensions, argument) in enumerate(zip(outcome.dimensions, outputs, strict=False))
            )
            self._last_result = ExecutionResult(all(shape.is_sufficient for shape in shapes), shapes)
            self._last_outcome = outcome
        return self._last_result

    def _shape(self, number: int, dimensions: Dimensions, argument: Argument) -> OutputShape:
        if argument.dimensions and not fits(dimensions, argument.dimensions):
            general_failure(
                f"output {number} has dimensions {list(dimensions)}, model and request say "
                f"{describe(argument.dimensions)}"
            )
        if argument.data is None:
            return OutputShape(dimensions)
        code = self._types[number]
        element = self._element_sizes.get(code, 0) if is_extension(code) else ELEMENT_TYPES[code].itemsize
        return OutputShape(dimensions, element * prod(dimensions) <= len(argument.data))
