"""A HAL model as a graph of parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.resolved import ResolvedModel, describe_operation, propagate_dimensions
from nnhal.types import Operation, OperationType, Subgraph
from nnhal.types.layout import is_extension
from nnhal_cascade.geometry.accesses import Everything, OneToOne
from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import (
    Activation,
    CascaderGraph,
    CascaderTensor,
    Kernel,
    Part,
    PartInput,
    PartKind,
)
from nnhal_cascade.graph.islands import FloatIsland, float_islands, inside
from nnhal_cascade.graph.matchers import elementwise, movement, resize, windows
from nnhal_cascade.graph.matchers.match import Match, Matcher, Reading, as_shape, shape_of

_EXPECTED = "expected an input that is computed or fed"


def build_graph(model: ResolvedModel) -> CascaderGraph:
    """Return the parts of a model's main subgraph, without operations whose results nobody reads.

    A convolution with its bias and its activation is one part, and an activation that alone reads another part's output
    belongs to that part. A RESHAPE is no part: its output shares the memory of its input. An island of floats is one.

    Raises ValueError that says which operation the cascader does not take, and why.
    """
    try:
        return _GraphBuilder(model).build()
    except HalError as error:
        raise ValueError(error.message) from error
    except UnknownYet as error:
        raise ValueError(f"{error}: got a value that is computed or fed at run time, expected a constant") from error


class _GraphBuilder:
    """Parts and tensors as far as they have been found."""

    def __init__(self, model: ResolvedModel) -> None:
        self._model = model
        self._graph = model.model.main
        self._dimensions = propagate_dimensions(model)
        self._live = _live_operations(self._graph.operations, self._graph.output_indexes)
        self._uses = Counter(index for number in self._live for index in self._graph.operations[number].inputs)
        self._tensors: list[CascaderTensor] = []
        self._parts: list[Part] = []
        self._tensor_of: dict[int, int] = {}
        self._producers: dict[int, int] = {}
        """The part that writes an operand, without operands that share its memory."""
        self._unnamed = _words_of_operands(self._graph)
        self._islands = float_islands(model)
        self._inside = inside(self._islands)

    def build(self) -> CascaderGraph:
        """Return the whole graph."""
        for number in self._live:
            self._add_operation(number)
        for operand in self._graph.output_indexes:
            tensor = self._tensor_of[operand]
            self._tensors[tensor] = replace(self._tensors[tensor], is_output=True)
        return CascaderGraph(tuple(self._parts), tuple(self._tensors), dict(self._tensor_of))

    def _add_operation(self, number: int) -> None:
        if number in self._inside:
            return
        if number in self._islands:
            self._add_island(self._islands[number])
            return
        operation = self._graph.operations[number]
        place = describe_operation(self._model.model, number)
        if is_extension(operation.type) or operation.type not in {*MATCHERS, *VIEWS}:
            raise ValueError(f"{place}: got an operation that the cascader has no part for, expected one of its README")
        op, kind = self._model.context(0, number, self._dimensions), OperationType(operation.type)
        DEFINITIONS[kind].prepare(op)
        if kind in VIEWS:
            self._add_view(op, operation, number)
        elif not (self._is_activation(op) and self._fuse(operation.inputs[0], operation.outputs[0], (number,), kind)):
            outputs = [as_shape(self._dimensions[operand], place) for operand in operation.outputs]
            matches = MATCHERS[kind](op, outputs)
            for operand, match in zip(operation.outputs, matches, strict=True):
                if self._is_read(operand):
                    self._add_part(op, (number,), operand, match)

    def _add_island(self, island: FloatIsland) -> None:
        """Add the part of an island, or let a table be part of what produces its input."""
        (made,) = self._graph.operations[island.operations[-1]].outputs
        op = self._model.context(0, island.main, self._dimensions)
        for number in island.operations:
            context = self._model.context(0, number, self._dimensions)
            DEFINITIONS[context.type].prepare(context)
        shape = as_shape(self._dimensions[made], op.place)
        if island.reduces:
            (match,) = MATCHERS[op.type](op, (shape,))
        elif island.pairs:
            match = elementwise.match_pair_of(self._shapes(island.sources), shape, island.pairs)
        elif self._fuse(island.sources[0], made, island.operations, op.type):
            return
        else:
            match = elementwise.match_table(shape)
        self._add_part(op, island.operations, made, match, island.sources)

    def _shapes(self, operands: Sequence[int]) -> list[Shape]:
        return [as_shape(self._dimensions[operand], self._name(operand)) for operand in operands]

    def _add_part(
        self,
        op: OperationContext,
        numbers: tuple[int, ...],
        operand: int,
        match: Match,
        operands: Sequence[int] | None = None,
    ) -> None:
        """Add the part of some operations, of which ``op`` is the main one.

        ``operands`` are those whose positions its readings have: by default the inputs of the first operation.
        """
        read = self._graph.operations[numbers[0]].inputs if operands is None else operands
        inputs = tuple(self._part_input(op, read[reading.position], reading) for reading in match.readings)
        if not inputs:
            raise ValueError(f"{op.place}: got only constants, {_EXPECTED}")
        self._producers[operand] = len(self._parts)
        output = self._add_tensor(operand)
        kernel = match.kernel
        if match.kind == PartKind.VECTOR_PRODUCT and self._is_one_row(op, inputs[0]):
            given = self._tensors[inputs[0].tensor].shape
            kernel = Kernel(given.rows, given.columns)
        self._parts.append(
            Part(
                index=len(self._parts),
                name=self._part_name(operand, op.type),
                kind=match.kind,
                operations=numbers,
                inputs=inputs,
                output=output,
                kernel=kernel,
                constants=match.constants,
                activation=match.activation,
                operation=op.type.name,
                passes=match.passes,
            )
        )

    def _is_one_row(self, op: OperationContext, given: PartInput) -> bool:
        """True if a product takes a tensor as one row: it has a weight for each element, as a convolution has."""
        return op.dimensions(FullyConnectedInput.WEIGHTS)[1] == self._tensors[given.tensor].shape.elements

    def _part_input(self, op: OperationContext, operand: int, reading: Reading) -> PartInput:
        """The input of a part. A tensor that the operation sees in another shape is read as a whole."""
        tensor = self._tensor_read(op, operand)
        shape = self._tensors[tensor].shape
        if as_shape(self._dimensions[operand], op.place) == shape:
            return PartInput(tensor, reading.rows, reading.columns, reading.channels)
        return _everything(tensor, shape)

    def _tensor_read(self, op: OperationContext, operand: int) -> int:
        """The tensor of an operand. Those of the network's inputs begin with their first reader."""
        if operand not in self._tensor_of and operand in self._graph.input_indexes:
            return self._add_tensor(operand, is_input=True)
        if operand not in self._tensor_of:
            raise ValueError(f"{op.place}: got a constant, {_EXPECTED}")
        return self._tensor_of[operand]

    def _add_view(self, op: OperationContext, operation: Operation, number: int) -> None:
        """Let the output share the input's tensor. An output of the network needs memory other than the inputs'."""
        made = operation.outputs[0]
        tensor = self._tensors[self._tensor_read(op, operation.inputs[0])]
        if made not in self._graph.output_indexes or not tensor.is_input:
            self._tensor_of[made] = tensor.index
            return
        self._add_part(op, (number,), made, _copy(shape_of(op, 0), as_shape(self._dimensions[made], op.place)))

    @staticmethod
    def _is_activation(op: OperationContext) -> bool:
        return op.type in ACTIVATIONS or elementwise.has_one_slope(op)

    def _fuse(self, given: int, made: int, numbers: tuple[int, ...], kind: OperationType) -> bool:
        """Make an activation part of what produces its input ``given``, if nothing else reads that."""
        producer = self._producers.get(given)
        own = sum(self._graph.operations[number].inputs.count(given) for number in numbers)
        if producer is None or self._uses[given] > own or given in self._graph.output_indexes:
            return False
        produced = self._parts[producer]
        if produced.kind == PartKind.COPY or produced.passes > 1:
            return False
        tensor = self._tensors[produced.output]
        self._unnamed[made] = self._unnamed[given]
        self._tensors[tensor.index] = replace(tensor, operand=made, name=self._name(made))
        self._tensor_of[made] = tensor.index
        self._producers[made] = producer
        del self._tensor_of[given]
        added = ACTIVATIONS.get(kind, Activation.TABLE)
        self._parts[produced.index] = replace(
            produced,
            name=self._part_name(made, OperationType[produced.operation]),
            operations=(*produced.operations, *numbers),
            activation=Activation.TABLE if Activation.TABLE in (added, produced.activation) else added,
        )
        return True

    def _is_read(self, operand: int) -> bool:
        return self._uses[operand] > 0 or operand in self._graph.output_indexes

    def _add_tensor(self, operand: int, is_input: bool = False) -> int:
        name, index = self._name(operand), len(self._tensors)
        shape = as_shape(self._dimensions[operand], name)
        self._tensors.append(CascaderTensor(index, name, shape, operand, is_input))
        self._tensor_of[operand] = index
        return index

    def _name(self, operand: int) -> str:
        """The name in the model. Converters join the names of operators that they fuse; the first one is enough.

        Without a name, the operation that computes it names it, or its place among the inputs.
        """
        return self._model.names.get(operand, "").partition(";")[0] or self._unnamed[operand]

    def _part_name(self, operand: int, kind: OperationType) -> str:
        return f"{self._name(operand)} ({kind.name})"


def _words_of_operands(graph: Subgraph) -> dict[int, str]:
    """Return ``input 0`` or ``operation 3`` for each operand that is fed or computed."""
    words = {operand: f"input {position}" for position, operand in enumerate(graph.input_indexes)}
    for number, operation in enumerate(graph.operations):
        for position, operand in enumerate(operation.outputs):
            words[operand] = f"operation {number}" + (f", output {position}" if position else "")
    return words


def _live_operations(operations: Sequence[Operation], outputs: Sequence[int]) -> list[int]:
    """The numbers of the operations on which the outputs depend, in order."""
    needed, live = set(outputs), []
    for number, operation in reversed(list(enumerate(operations))):
        if not needed.isdisjoint(operation.outputs):
            needed.update(operation.inputs)
            live.append(number)
    return live[::-1]


def _everything(tensor: int, shape: Shape) -> PartInput:
    return PartInput(tensor, *(Everything(extent) for extent in shape))


def _copy(given: Shape, made: Shape) -> Match:
    accesses = (OneToOne(extent) if given == made else Everything(extent) for extent in given)
    return Match(PartKind.COPY, (Reading(0, *accesses),))


ACTIVATIONS: Mapping[OperationType, Activation] = {
    OperationType.HARD_SWISH: Activation.TABLE,
    OperationType.LOGISTIC: Activation.TABLE,
    OperationType.RELU: Activation.CLAMP,
    OperationType.RELU1: Activation.CLAMP,
    OperationType.RELU6: Activation.CLAMP,
    OperationType.RSQRT: Activation.TABLE,
    OperationType.TANH: Activation.TABLE,
}
"""Functions of one element, which the NPU applies to the output of another operation if there is one."""

VIEWS = frozenset({OperationType.EXPAND_DIMS, OperationType.RESHAPE, OperationType.SQUEEZE})
"""Operations whose output has the bytes of the input."""

MATCHERS: Mapping[OperationType, Matcher] = {
    OperationType.ADD: elementwise.match_arithmetic,
    OperationType.AVERAGE_POOL_2D: windows.match_pooling,
    OperationType.BATCH_MATMUL: windows.match_batch_matmul,
    OperationType.CONCATENATION: movement.match_concatenation,
    OperationType.CONV_2D: windows.match_conv_2d,
    OperationType.DEPTHWISE_CONV_2D: windows.match_depthwise_conv_2d,
    OperationType.DEPTH_TO_SPACE: movement.match_depth_to_space,
    OperationType.FULLY_CONNECTED: windows.match_fully_connected,
    OperationType.MAXIMUM: elementwise.match_pair,
    OperationType.MAX_POOL_2D: windows.match_pooling,
    OperationType.MEAN: windows.match_reduction,
    OperationType.MINIMUM: elementwise.match_pair,
    OperationType.MIRROR_PAD: movement.match_mirror_pad,
    OperationType.MUL: elementwise.match_arithmetic,
    OperationType.PACK: movement.match_pack,
    OperationType.PAD: movement.match_pad,
    OperationType.PAD_V2: movement.match_pad,
    OperationType.PRELU: elementwise.match_prelu,
    OperationType.REDUCE_MAX: windows.match_reduction,
    OperationType.REDUCE_MIN: windows.match_reduction,
    OperationType.REDUCE_SUM: windows.match_reduction,
    OperationType.RESIZE_BILINEAR: resize.match_bilinear,
    OperationType.RESIZE_NEAREST_NEIGHBOR: resize.match_nearest,
    OperationType.REVERSE: movement.match_reverse,
    OperationType.SLICE: movement.match_slice,
    OperationType.SOFTMAX: elementwise.match_softmax,
    OperationType.SPACE_TO_DEPTH: movement.match_space_to_depth,
    OperationType.SPLIT: movement.match_split,
    OperationType.STRIDED_SLICE: movement.match_strided_slice,
    OperationType.SUB: elementwise.match_arithmetic,
    OperationType.TILE: movement.match_tile,
    OperationType.TRANSPOSE: movement.match_transpose,
    OperationType.TRANSPOSE_CONV_2D: windows.match_transpose_conv_2d,
    **{kind: elementwise.match_activation(activation) for kind, activation in ACTIVATIONS.items()},
}
"""All operations that become parts. Those of ``VIEWS`` become none."""
