"""What a front end makes of a user's model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnhal.types import Model


@dataclass(frozen=True, slots=True)
class ImportedTensor:
    """An input or output of the model, as the user sees it.

    ``operand`` is its index in the main subgraph. ``element_type`` and ``shape`` are the user's, with 0 for an unknown
    axis; the element type is object for what is no tensor of numbers. The operand may differ in two ways. The HAL has
    no 64-bit integers: where no extension carries them, int64 lies in TENSOR_INT32. It has no tensors of rank 0: their
    dimensions are [1].
    """

    name: str
    operand: int
    element_type: np.dtype[np.generic]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A HAL model, and how it goes back to the user's.

    ``operation_nodes`` names, for each operation of main, the user's nodes that it stands for; a node may stand in
    several operations, and an operation for several nodes. ``folded_nodes`` names those that need no operation, since
    their results are constant, are not used, or are just their inputs. ``operand_names`` has a name for each operand of
    main: the user's own where there is one, else empty.
    """

    model: Model
    inputs: tuple[ImportedTensor, ...]
    outputs: tuple[ImportedTensor, ...]
    operation_nodes: tuple[tuple[str, ...], ...]
    folded_nodes: tuple[str, ...]
    operand_names: tuple[str, ...]
