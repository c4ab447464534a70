"""Models: subgraphs of operations over operands."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.types.enums import OperandLifeTime
from nnhal.types.memory import NOWHERE, DataLocation, Memory


@dataclass(frozen=True, slots=True)
class ChannelQuant:
    """Quantisation of TENSOR_QUANT8_SYMM_PER_CHANNEL: one scale for each index along ``channel_dim``."""

    scales: tuple[float, ...]
    channel_dim: int


@dataclass(frozen=True, slots=True)
class Operand:
    """A value of a subgraph."""

    type: int
    """An OperandType, or an extension's code."""
    dimensions: tuple[int, ...] = ()
    """Empty for scalars and for tensors of unknown rank; 0 is an axis of unknown size."""
    scale: float = 0.0
    """Quantisation scale, 0 if the type has none."""
    zero_point: int = 0
    """Quantisation zero point, 0 if the type has none."""
    lifetime: OperandLifeTime | int = OperandLifeTime.TEMPORARY_VARIABLE
    """Where the value comes from."""
    location: DataLocation = NOWHERE
    """Where a constant lies."""
    extra_params: ChannelQuant | bytes | None = None
    """A ChannelQuant for per-channel types, bytes for extension types."""

    def with_dimensions(self, dimensions: tuple[int, ...]) -> Operand:
        if dimensions == self.dimensions:
            return self
        return Operand(
            self.type, dimensions, self.scale, self.zero_point, self.lifetime, self.location, self.extra_params
        )

    def placed(self, lifetime: OperandLifeTime, location: DataLocation) -> Operand:
        return Operand(self.type, self.dimensions, self.scale, self.zero_point, lifetime, location, self.extra_params)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on operands of its own subgraph. ``type`` is an OperationType, or an extension's code."""

    type: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Operands, and operations in an order in which they can be executed."""

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    input_indexes: tuple[int, ...]
    output_indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExtensionNameAndPrefix:
    """The ``prefix`` that stands for the extension ``name`` in one model."""

    name: str
    prefix: int


@dataclass(frozen=True, slots=True)
class Model:
    """A main subgraph and the subgraphs that its control flow refers to: what a device prepares."""

    main: Subgraph
    """What is executed."""
    referenced: tuple[Subgraph, ...] = ()
    """Subgraphs of IF and WHILE, referred to by index."""
    operand_values: bytes = b""
    """The values of CONSTANT_COPY operands."""
    pools: tuple[Memory, ...] = ()
    """The memory of CONSTANT_POOL operands."""
    relax_computation_float32_to_float16: bool = False
    """True if TENSOR_FLOAT32 may be computed with the range and precision of float16."""
    extension_name_to_prefix: tuple[ExtensionNameAndPrefix, ...] = ()
    """The extensions that the model uses."""
