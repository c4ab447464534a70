"""Import TFLite models: a converter for each operator, in the file's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from nnhal.errors import HalError
from nnhal.types import Model, OperandLifeTime, OperationType
from nnhal.types.layout import byte_size, describe
from nnhal.types.memory import NOWHERE
from nnhal.validation import validate_model
from nnhal_frontends.builder import ModelBuilder, ReferencedSubgraph
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import InvalidModel, UnsupportedInput
from nnhal_frontends.imported import ImportedModel, ImportedState, ImportedTensor
from nnhal_frontends.limits import DEFAULT_LIMITS, ImportLimits
from nnhal_frontends.tflite.builder import (
    FLOAT_BYTES,
    OperatorBuilder,
    StateVariable,
    SubgraphTable,
    TfliteGraphBuilder,
)
from nnhal_frontends.tflite.folding import fold
from nnhal_frontends.tflite.graph import TfliteGraph, TfliteOperator
from nnhal_frontends.tflite.ops import CONVERTERS
from nnhal_frontends.tflite.reader import read_graphs
from nnhal_frontends.tflite.tensors import element_type
from nnhal_frontends.tflite.variables import ASSIGN_VARIABLE, Variables

_MAX_BYTES = 2**32 - 1
AFTER = "/after"
"""The suffix of the name of a state as an output."""


def import_tflite(content: ModelContent, limits: ImportLimits = DEFAULT_LIMITS) -> ImportedModel:
    """Import the first subgraph of a TFLite file, and those that it refers to.

    Nodes are named by operator, index and first output: ``CONV_2D_0:block/conv``. Inputs have the initial shape of an
    interpreter. Variables are states of the model. Raises InvalidModel if the file is malformed, UnsupportedNode or
    UnsupportedInput if the NN HAL cannot express an operator or an input.
    """
    graphs = read_graphs(content, limits)
    room = limits.folded_bytes + FLOAT_BYTES * len(content)
    subgraphs = SubgraphTable(lambda number: _part(graphs, number, subgraphs, room // len(graphs)))
    builder = TfliteGraphBuilder(graphs[0], subgraphs, model=ModelBuilder(room=room))
    builder.variables = Variables.of(graphs, room)
    outputs = _converted(builder)
    _keep_variables(builder, outputs)
    return _imported(builder, outputs)


def _part(graphs: Sequence[TfliteGraph], number: int, subgraphs: SubgraphTable, room: int) -> ReferencedSubgraph:
    """Convert a subgraph that an operator refers to."""
    if not 0 <= number < len(graphs):
        raise InvalidModel(f"an operator refers to subgraph {number}, the file has {len(graphs)} subgraphs")
    builder = TfliteGraphBuilder(graphs[number], subgraphs, number, ModelBuilder(room=room))
    outputs = _converted(builder)
    return ReferencedSubgraph(builder.model, [builder.operands[index] for index in builder.graph.inputs], outputs)


def _converted(builder: TfliteGraphBuilder) -> list[int]:
    """Convert a subgraph, and return the operands of its outputs."""
    for index in builder.graph.inputs:
        try:
            builder.input(index)
        except ValueError as error:
            raise UnsupportedInput(f"input {error}") from error
    for operator in builder.graph.operators:
        _convert(builder, operator)
    outputs = _outputs(builder)
    _require_sizes(builder)
    return outputs


def _convert(builder: TfliteGraphBuilder, operator: TfliteOperator) -> None:
    b = OperatorBuilder(builder, operator)
    if fold(b):
        return
    converter = CONVERTERS.get(operator.op_type)
    if converter is None:
        raise operator.unsupported("the NN HAL has no operation for this operator", ", ".join(sorted(CONVERTERS)))
    converter(b)
    missing = [i for i in operator.outputs if i not in builder.operands and i not in builder.folded]
    if missing:
        raise operator.unsupported(f"it has {len(operator.outputs)} outputs", str(len(operator.outputs) - len(missing)))


def _outputs(builder: TfliteGraphBuilder) -> list[int]:
    """Return an operand for each output. A tensor that no operation writes, or that is an output already, is copied."""
    found: dict[int, None] = {}
    for index in builder.graph.outputs:
        tensor = builder.graph.tensors[index]
        b = OperatorBuilder(builder, TfliteOperator(f"output '{tensor.name}'", "COPY", (index,), ()))
        operand = b.input(0)
        if b.operand(operand).lifetime != OperandLifeTime.SUBGRAPH_OUTPUT or operand in found:
            operand = _copy(b, operand, tensor.name)
        found[operand] = None
    return list(found)


def _copy(b: OperatorBuilder, operand: int, name: str) -> int:
    source = replace(b.operand(operand), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT, location=NOWHERE)
    result = b.model.add(source, name)
    b.add(OperationType.CAST, [operand], [result])
    b.origins[-1] = ()  # the copy stands for no operator of the file
    return result


def _require_sizes(builder: TfliteGraphBuilder) -> None:
    for operand, name in zip(builder.model.operands, builder.model.names, strict=True):
        size = byte_size(operand.type, operand.dimensions)
        if size > _MAX_BYTES:
            raise InvalidModel(
                f"tensor '{name}' of {describe(operand.dimensions)} takes {size} bytes, expected at most {_MAX_BYTES}"
            )


def _keep_variables(builder: TfliteGraphBuilder, outputs: Sequence[int]) -> None:
    """Make states of the variables that are read before they are assigned: their last values are outputs."""
    variables, model = builder.variables, builder.model
    taken = {*outputs, *(state.after for state in builder.states)}
    b = OperatorBuilder(builder, TfliteOperator("variables", ASSIGN_VARIABLE, (), ()))
    for name, before in variables.before.items():
        after = variables.operands[name]
        if after in taken or model.operands[after].lifetime != OperandLifeTime.TEMPORARY_VARIABLE:
            after = _copy(b, after, name)
        dimensions = model.operands[before].dimensions
        model.operands[after] = replace(
            model.operands[after], lifetime=OperandLifeTime.SUBGRAPH_OUTPUT, dimensions=dimensions
        )
        taken.add(after)
        initial = variables.initial[name].reshape(dimensions)
        builder.states.append(StateVariable(name, before, after, initial))


def _imported(builder: TfliteGraphBuilder, outputs: Sequence[int]) -> ImportedModel:
    graph, names = builder.graph, _Names()
    user_inputs = [_tensor(builder, index, builder.operands[index], names) for index in graph.inputs]
    user_outputs = [
        _tensor(builder, index, operand, names) for index, operand in zip(graph.outputs, outputs, strict=True)
    ]
    states = tuple(_state(state, names) for state in builder.states)
    inputs = (*user_inputs, *(state.before for state in states))
    results = (*user_outputs, *(state.after for state in states))
    used = {name for names in builder.origins for name in names}
    ends = [tensor.operand for tensor in inputs], [tensor.operand for tensor in results]
    model = builder.model.build(*ends, builder.subgraphs.converted)
    _require_fitting_subgraphs(model)
    return ImportedModel(
        model,
        tuple(user_inputs),
        tuple(user_outputs),
        tuple(builder.origins),
        tuple(operator.name for operator in graph.operators if operator.name not in used),
        tuple(builder.model.names),
        states=states,
    )


def _require_fitting_subgraphs(model: Model) -> None:
    try:
        if model.referenced:
            validate_model(model)
    except HalError as error:
        raise InvalidModel(f"the subgraphs do not fit their uses: {error.message}") from error


def _state(state: StateVariable, names: _Names) -> ImportedState:
    element, shape = state.initial.dtype, state.initial.shape
    before = ImportedTensor(names.unique(state.name), state.before, element, shape)
    return ImportedState(
        before, ImportedTensor(names.unique(state.name + AFTER), state.after, element, shape), state.initial
    )


def _tensor(builder: TfliteGraphBuilder, index: int, operand: int, names: _Names) -> ImportedTensor:
    tensor, dimensions = builder.graph.tensors[index], builder.model.operands[operand].dimensions
    shape = () if dimensions == (1,) and not tensor.initial_shape else dimensions
    return ImportedTensor(names.unique(tensor.name), operand, element_type(tensor).numpy, shape)


class _Names:
    """Unique names for inputs and outputs, since the names in files need not be unique."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def unique(self, name: str) -> str:
        """Return a name, with a number if it has been returned before."""
        candidates = (name if number == 0 else f"{name}_{number}" for number in count())
        chosen = next(candidate for candidate in candidates if candidate not in self._given)
        self._given.add(chosen)
        return chosen
