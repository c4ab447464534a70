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
    """A value of a subgraph.

    ``type`` is an OperandType, or an extension's code. ``dimensions`` is empty for scalars and for tensors of unknown
    rank; 0 is an axis of unknown size. ``extra_params`` is a ChannelQuant for per-channel types, bytes for extensions.
    """

    type: int
    dimensions: tuple[int, ...] = ()
    scale: float = 0.0
    zero_point: int = 0
    lifetime: OperandLifeTime | int = OperandLifeTime.TEMPORARY_VARIABLE
    location: DataLocation = NOWHERE
    extra_params: ChannelQuant | bytes | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation over operands of its own subgraph. ``type`` is an OperationType, or an extension's code."""

    type: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Operations in an order in which they can be executed."""

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    input_indexes: tuple[int, ...]
    output_indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExtensionNameAndPrefix:
    """In one model ``prefix`` stands for the extension called ``name``."""

    name: str
    prefix: int


@dataclass(frozen=True, slots=True)
class Model:
    """What a device prepares. CONSTANT_COPY operands lie in ``operand_values``, CONSTANT_POOL operands in ``pools``."""

    main: Subgraph
    referenced: tuple[Subgraph, ...] = ()
    operand_values: bytes = b""
    pools: tuple[Memory, ...] = ()
    relax_computation_float32_to_float16: bool = False
    extension_name_to_prefix: tuple[ExtensionNameAndPrefix, ...] = ()
