"""What a client binds to the inputs and outputs of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnhal.errors import invalid_argument
from nnhal.types import DataLocation, ExecutionConfig, Memory
from nnhal.types.layout import Dimensions
from nnhal.types.memory import NOWHERE
from nnhal_service.frontends.imported import ImportedTensor
from nnhal_service.runtime.domains import DomainMemory


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """Where one input or output of the model lies: the location's pool index is into the caller's pools.

    ``memory`` takes the place of the location. ``omitted`` says that an optional input has no value.
    """

    name: str
    location: DataLocation = NOWHERE
    dimensions: Dimensions = ()
    memory: DomainMemory | None = None
    omitted: bool = False


@dataclass(frozen=True, slots=True)
class Bindings:
    """What a client has tied a model to: inputs and outputs by operand of main, and how it is to run.

    ``missed`` is told the devices that were gone in a run; ``released`` is called before executions are.
    """

    inputs: Mapping[int, TensorBinding]
    outputs: Mapping[int, TensorBinding]
    pools: Sequence[Memory]
    config: ExecutionConfig
    missed: Callable[[frozenset[str]], None]
    released: Callable[[], None]


def bindings_of(
    tensors: Sequence[ImportedTensor], bindings: Sequence[TensorBinding], what: str
) -> dict[int, TensorBinding]:
    """The bindings by operand of main. Raises INVALID_ARGUMENT unless every tensor has exactly one."""
    given = {binding.name: binding for binding in bindings}
    wanted = {tensor.name: tensor for tensor in tensors}
    if given.keys() != wanted.keys() or len(given) != len(bindings):
        invalid_argument(f"got {what}s {sorted(b.name for b in bindings)}, expected each of {sorted(wanted)} once")
    return {tensor.operand: given[name] for name, tensor in wanted.items()}
