"""Whether the dimensions that an application gives agree with the operations that get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal.errors import HalError, general_failure
from nnhal.memory import read_pools
from nnhal.resolved import ResolvedModel, inline_constants, propagate_dimensions
from nnhal.types import Model
from nnhal.types.layout import Dimensions


class Consistency:
    """What follows from a valid model, and from dimensions for its inputs and outputs."""

    def __init__(self, model: Model) -> None:
        """Raises HalError where the constants cannot be read."""
        self._model = model
        self._constants = inline_constants(model, read_pools(model.pools))

    def require(self, inputs: Sequence[Dimensions], outputs: Sequence[Dimensions]) -> None:
        """Raise GENERAL_FAILURE where they contradict the model: to NNAPI that is a failure, and no bad argument."""
        graph = self._model.main
        operands = list(graph.operands)
        indexes = (*graph.input_indexes, *graph.output_indexes)
        for index, dimensions in zip(indexes, (*inputs, *outputs), strict=True):
            if dimensions:
                operands[index] = replace(operands[index], dimensions=dimensions)
        given = replace(self._model, main=replace(graph, operands=tuple(operands)))
        try:
            propagate_dimensions(ResolvedModel(given, self._constants))
        except HalError as error:
            general_failure(error.message)
