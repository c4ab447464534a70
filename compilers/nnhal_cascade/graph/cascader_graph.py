"""The graph that is planned: parts, the tensors between them, and constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from nnhal_cascade.geometry.accesses import AxisAccess
from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape


@dataclass(frozen=True, slots=True)
class CascaderTensor:
    """An activation: what one part writes and others read. Constants are no tensors here: they belong to their part."""

    index: int
    """Its position in the graph's tensors."""
    name: str
    """The name in the model, or ``operand 7`` if it has none."""
    shape: Shape
    """Elements; a tensor of a lower rank has axes of 1 in front, and the channels are its last axis."""
    operand: int
    """The operand of the HAL model. Of operands that share memory (RESHAPE), the first."""
    is_input: bool = False
    """True if it is an input of the network."""
    is_output: bool = False
    """True if it is an output of the network."""
    element_bytes: int = 1
    """Bytes of an element."""

    @property
    def bytes(self) -> int:
        """The bytes of the whole tensor."""
        return self.shape.elements * self.element_bytes


class PartKind(StrEnum):
    """The unit of the NPU that runs a part, which decides what a stripe costs."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    TRANSPOSE_CONVOLUTION = "transpose convolution"
    VECTOR_PRODUCT = "vector product"
    POOLING = "pooling"
    REDUCE_SUM = "reduce sum"
    ELEMENTWISE = "elementwise"
    COPY = "copy"
    FEED = "feed"
    """The client hands over an input of the network. Its part reads nothing, and costs nothing."""


class Activation(StrEnum):
    """Activation that is fused behind a part, as far as its cost is concerned."""

    NONE = "none"
    CLAMP = "clamp"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A window over rows and columns, in elements of the input (of the upscaled input, if there is an upscale)."""

    height: int = 1
    width: int = 1
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1
    upscale: int = 1
    """Rows and columns of the upscaled input for one of the input: 2 for RESIZE to twice the size and for a transpose
    convolution of stride 2."""


@dataclass(frozen=True, slots=True)
class PartInput:
    """An activation that a part reads, and the dependency along each axis: the part's propagator for it."""

    tensor: int
    """Its index in the graph's tensors."""
    rows: AxisAccess
    columns: AxisAccess
    channels: AxisAccess

    def needs(self, wanted: Box) -> Box:
        """Return the box of the input that a box of the part's output depends on."""
        return Box(
            self.rows.needs(wanted.rows), self.columns.needs(wanted.columns), self.channels.needs(wanted.channels)
        )

    def along(self, axis: Axis) -> AxisAccess:
        """Return the dependency along an axis."""
        return (self.rows, self.columns, self.channels)[axis]


@dataclass(frozen=True, slots=True)
class PartConstants:
    """The constants of a part: weights with scales and biases, or a constant operand. They lie in flash."""

    weight_bytes: int
    """Encoded bytes of weights for one channel of the output, 0 if there are none."""
    scale_bytes: int
    """Bytes of scale and bias for one channel of the output: 10 on Ethos-U, 0 if there are none."""
    compressed: bool = False
    """True if the weights are stored in the NPU's compressed form."""

    def bytes_of(self, channels: Interval) -> int:
        """The bytes for some channels of the output."""
        return (self.weight_bytes + self.scale_bytes) * channels.length


@dataclass(frozen=True, slots=True)
class Part:
    """Operations that the NPU runs as one: a convolution with its bias and its activation, for example."""

    index: int
    """Its position in the graph's parts, which are in an order in which they can run."""
    name: str
    """For people: the name of its output in the model, with its kind."""
    kind: PartKind
    operations: tuple[int, ...]
    """The HAL model's operations, in order."""
    inputs: tuple[PartInput, ...]
    """The activations that it reads; constant operands are among its constants."""
    output: int
    """The index of the tensor that it writes."""
    kernel: Kernel = field(default_factory=Kernel)
    constants: PartConstants | None = None
    activation: Activation = Activation.NONE
    operation: str = ""
    """The HAL's name of its main operation, such as ``CONV_2D``."""
    passes: int = 1
    """How often the NPU goes over the data: more than 1 for what it has no single operation for, such as SOFTMAX."""


@dataclass(frozen=True)
class CascaderGraph:
    """Parts in an order in which they can run, and the activations between them."""

    parts: tuple[Part, ...]
    tensors: tuple[CascaderTensor, ...]
    tensor_of: Mapping[int, int] = field(default_factory=dict, compare=False)
    """The tensor of each operand of the HAL model that is an activation. Operands that share memory share a tensor;
    inputs that nobody reads, and what is inside a part, have none."""

    @cached_property
    def constants_bytes(self) -> tuple[int, ...]:
        """The bytes of each part's constants, 0 for parts without any."""
        return tuple(
            part.constants.bytes_of(Interval(0, self.tensors[part.output].shape.channels)) if part.constants else 0
            for part in self.parts
        )

    @cached_property
    def producers(self) -> tuple[int | None, ...]:
        """The part that writes each tensor, None for inputs of the network."""
        found: list[int | None] = [None] * len(self.tensors)
        for part in self.parts:
            found[part.output] = part.index
        return tuple(found)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """The parts that read each tensor, in order, each once."""
        found: list[dict[int, None]] = [{} for _ in self.tensors]
        for part in self.parts:
            for each in part.inputs:
                found[each.tensor][part.index] = None
        return tuple(tuple(each) for each in found)


def tensor_names(graph: CascaderGraph) -> list[str]:
    """Return the name of each tensor, with its number if another one has the same name."""
    uses = Counter(tensor.name for tensor in graph.tensors)
    return [
        tensor.name if uses[tensor.name] == 1 else f"{tensor.name} (tensor {tensor.index})" for tensor in graph.tensors
    ]
