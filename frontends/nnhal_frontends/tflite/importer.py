"""Import TFLite models: a converter for each operator, in the file's order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import count

from nnhal.errors import HalError
from nnhal.extensions import size_in_bytes
from nnhal.extensions.tflite import EXTENSION, NAME, PREFIX, operand_code
from nnhal.types import ExtensionNameAndPrefix, Model, OperandLifeTime, OperationType
from nnhal.types.layout import describe, is_extension
from nnhal.types.memory import NOWHERE
from nnhal.validation import validate_model
from nnhal_frontends.builder import ModelBuilder, ReferencedSubgraph
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import (
    FrontendError,
    InvalidModel,
    UnfitSubgraphs,
    UnsupportedInput,
    UnsupportedNode,
    UnsupportedNodes,
)
from nnhal_frontends.imported import ImportedModel, ImportedState, ImportedTensor
from nnhal_frontends.limits import DEFAULT_LIMITS, ImportLimits
from nnhal_frontends.tflite.builder import (
    FLOAT_BYTES,
    OperatorBuilder,
    StateVariable,
    SubgraphTable,
    TfliteGraphBuilder,
)
from nnhal_frontends.tflite.composites import without_composites
from nnhal_frontends.tflite.extension import (
    add_extension_operation,
    add_whole,
    foresee,
    keeps_state,
    objection,
    units,
)
from nnhal_frontends.tflite.flat import flat_tensors
from nnhal_frontends.tflite.folding import fold
from nnhal_frontends.tflite.graph import TfliteGraph, TfliteOperator
from nnhal_frontends.tflite.ops import CONVERTERS
from nnhal_frontends.tflite.parts import TfliteFile
from nnhal_frontends.tflite.signatures import EntryPoint, entry_point
from nnhal_frontends.tflite.tensors import user_element_type
from nnhal_frontends.tflite.variables import ASSIGN_VARIABLE, Variables
from nnhal_frontends.tflite.wide_integers import wide_integers

_MAX_BYTES = 2**32 - 1
_MOST_PASSES = 16
"""An operator that is left to the extension may leave its neighbour nothing to be converted with."""
_SIZES = {operand_code(entry.type): entry.byte_size for entry in EXTENSION.operand_types}
AFTER = "/after"
"""The suffix of the name of a state as an output."""


def import_tflite(
    file: ModelContent | TfliteFile,
    limits: ImportLimits = DEFAULT_LIMITS,
    extension: bool = True,
    as_one: bool = False,
    signature: str | None = None,
) -> ImportedModel:
    """Import the first subgraph of a TFLite file, or that of a ``signature``, and those that it refers to. The file may
    have been read already.

    With a signature, inputs and outputs have the names that it gives them, otherwise those of their tensors.

    Nodes are named by operator, index and first output: ``CONV_2D_0:block/conv``. Dimensions that the file leaves open
    are open. Variables are states of the model. What the HAL cannot express becomes operations of the extension
    nnhal.tflite, unless ``extension`` is false. A model becomes one such operation as a whole if it has tables or
    control flow that the HAL does not have, and with ``as_one`` if it has no variables. Raises InvalidModel if the file
    is malformed, UnsupportedNode or UnsupportedInput if neither HAL nor extension can express an operator or an input.
    """
    if not isinstance(file, TfliteFile):
        file = TfliteFile.read(file, limits)
    entry = entry_point(file.graphs, file.signatures, signature)
    listed = tuple(each.name for each in file.signatures)
    room = limits.folded_bytes + FLOAT_BYTES * file.size
    can_be_one = signature is None and not any(map(keeps_state, file.graphs))
    if file.content is not None and can_be_one and (as_one or (extension and _has_tables(file.graphs))):
        return replace(_whole(file.content, entry, room), signatures=listed)
    try:
        return replace(_in_operations(entry, limits, room, extension), signatures=listed)
    except (UnsupportedNodes, UnfitSubgraphs) as error:
        # LiteRT runs branches and turns that give values in other dimensions, or integers of 64 bits.
        if file.content is None or not (can_be_one and extension and _is_about_control_flow(error)):
            raise
        return replace(_whole(file.content, entry, room), signatures=listed)


def _is_about_control_flow(error: FrontendError) -> bool:
    refused = error.refused if isinstance(error, UnsupportedNodes) else ()
    return all(node.op_type in ("IF", "WHILE") for node in refused)


def _in_operations(entry: EntryPoint, limits: ImportLimits, room: int, extension: bool) -> ImportedModel:
    """Convert operator by operator. Raises as ``import_tflite``."""
    graphs = without_composites(entry.graphs, limits)
    subgraphs = SubgraphTable(graphs, lambda number: _part(graphs, number, subgraphs, room // len(graphs), extension))

    def make() -> TfliteGraphBuilder:
        builder = _builder(graphs, 0, subgraphs, room, extension)
        builder.variables = Variables.of(graphs, room)
        return builder

    builder, outputs = _converted(make, extension)
    _keep_variables(builder, outputs)
    return _imported(builder, outputs, entry)


def _builder(
    graphs: Sequence[TfliteGraph], number: int, subgraphs: SubgraphTable, room: int, extension: bool = True
) -> TfliteGraphBuilder:
    names = ExtensionNameAndPrefix(NAME, PREFIX) if extension else None
    return TfliteGraphBuilder(graphs[number], subgraphs, number, ModelBuilder(extension=names, room=room))


def _whole(content: ModelContent, entry: EntryPoint, room: int) -> ImportedModel:
    """Import a file as one operation of the extension."""
    builder = _builder(entry.graphs, 0, SubgraphTable(entry.graphs, _no_subgraph), room + len(content))
    builder.wide = wide_integers(builder.graph, range(len(builder.graph.operators)))
    _add_inputs(builder)
    try:
        add_whole(builder, content if isinstance(content, bytes) else content[:])
    except ValueError as error:
        raise InvalidModel(str(error)) from error
    return _imported(builder, [builder.operands[index] for index in builder.graph.outputs], entry)


def _part(
    graphs: Sequence[TfliteGraph], number: int, subgraphs: SubgraphTable, room: int, extension: bool
) -> ReferencedSubgraph:
    """Convert a subgraph that an operator refers to."""
    if not 0 <= number < len(graphs):
        raise InvalidModel(f"an operator refers to subgraph {number}, the file has {len(graphs)} subgraphs")
    builder, outputs = _converted(lambda: _builder(graphs, number, subgraphs, room, extension), extension)
    return ReferencedSubgraph(builder.model, [builder.operands[index] for index in builder.graph.inputs], outputs)


def _converted(make: Callable[[], TfliteGraphBuilder], extension: bool) -> tuple[TfliteGraphBuilder, list[int]]:
    """Convert a subgraph, and return its builder and the operands of its outputs.

    If operators cannot be converted, they are left to the extension, and the conversion begins again.
    """
    left: set[int] = set()
    for _ in range(_MOST_PASSES):
        builder = make()
        refused = _convert_all(builder, left)
        if not refused:
            outputs = _outputs(builder)
            _require_sizes(builder)
            return builder, outputs
        operators = builder.graph.operators
        if not extension:
            raise next(iter(refused.values()))
        lost = [error for index, error in refused.items() if index in left or objection(builder, operators[index])]
        if lost:
            raise UnsupportedNodes(lost)
        left.update(refused)
    raise UnsupportedNodes(list(refused.values()))


def _convert_all(builder: TfliteGraphBuilder, left: Collection[int]) -> dict[int, UnsupportedNode]:
    """Convert all operators, those in ``left`` for the extension. Return the errors by operator."""
    graph = builder.graph
    builder.wide = wide_integers(graph, left)
    builder.flat = flat_tensors(graph, left)
    _add_inputs(builder)
    refused: dict[int, UnsupportedNode] = {}
    for unit in units(graph, left):
        first = graph.operators[unit.operators[0]]
        try:
            if unit.extension:
                add_extension_operation(builder, unit)
            else:
                _convert(builder, first)
        except UnsupportedNodes:
            raise  # of a subgraph, about its own operators
        except (UnsupportedNode, ValueError) as error:
            refused[unit.operators[0]] = error if isinstance(error, UnsupportedNode) else first.unsupported(str(error))
            foresee(builder, first)
    return refused


def _add_inputs(builder: TfliteGraphBuilder) -> None:
    for index in builder.graph.inputs:
        try:
            builder.input(index)
        except ValueError as error:
            raise UnsupportedInput(f"input {error}") from error


def _has_tables(graphs: Sequence[TfliteGraph]) -> bool:
    """Return whether a model has tables, which its first run fills: only an interpreter of the whole model has them."""
    return any(operator.op_type == "HASHTABLE" for graph in graphs for operator in graph.operators)


def _no_subgraph(number: int) -> ReferencedSubgraph:
    raise InvalidModel(f"subgraph {number} of a model that is one operation")


def _convert(builder: TfliteGraphBuilder, operator: TfliteOperator) -> None:
    b = OperatorBuilder(builder, operator)
    if fold(b):
        return
    converter = CONVERTERS.get(operator.op_type)
    if converter is None:
        raise operator.unsupported(objection(builder, operator) or "the NN HAL has no operation for this operator")
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
        held = index in builder.operands and is_extension(builder.model.operands[builder.operands[index]].type)
        try:
            operand = builder.operands[index] if held else b.input(0)
        except ValueError as error:
            raise b.unsupported(str(error)) from error
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
        size = size_in_bytes(operand.type, operand.dimensions, _SIZES)
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


def _imported(builder: TfliteGraphBuilder, outputs: Sequence[int], entry: EntryPoint) -> ImportedModel:
    graph, names = builder.graph, _Names()
    user_inputs = [
        _tensor(builder, index, builder.operands[index], names, entry.input_names.get(index)) for index in graph.inputs
    ]
    # A signature names inputs apart from outputs, so that what comes out goes in again by its name.
    output_names = _Names() if entry.output_names else names
    given: Sequence[str | None] = entry.output_names or [None] * len(outputs)
    user_outputs = [
        _tensor(builder, index, operand, output_names, name)
        for index, operand, name in zip(graph.outputs, outputs, given, strict=True)
    ]
    states = tuple(_state(state, names, output_names) for state in builder.states)
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
        operation_places=_places(builder.origins, entry.graphs[0]),
        node_count=len(entry.graphs[0].operators),
        settled=model if builder.model.is_settled(model) else None,
    )


def _places(origins: Iterable[Sequence[str]], graph: TfliteGraph) -> tuple[tuple[int, ...], ...]:
    """Return the operators of the file's graph that operations stand for; what a composite consists of is it itself."""
    indexes = {operator.name: index for index, operator in enumerate(graph.operators)}

    def index_of(name: str) -> int | None:
        while name and name not in indexes:
            name = name.rpartition("/")[0]
        return indexes.get(name)

    found = (map(index_of, names) for names in origins)
    return tuple(tuple(index for index in dict.fromkeys(each) if index is not None) for each in found)


def _require_fitting_subgraphs(model: Model) -> None:
    try:
        if model.referenced:
            validate_model(model)
    except HalError as error:
        raise UnfitSubgraphs(f"the subgraphs do not fit their uses: {error.message}") from error


def _state(state: StateVariable, names: _Names, output_names: _Names) -> ImportedState:
    element, shape = state.initial.dtype, state.initial.shape
    before = ImportedTensor(names.unique(state.name), state.before, element, shape)
    after = ImportedTensor(output_names.unique(state.name + AFTER), state.after, element, shape)
    return ImportedState(before, after, state.initial, shape)


def _tensor(
    builder: TfliteGraphBuilder, index: int, operand: int, names: _Names, name: str | None = None
) -> ImportedTensor:
    tensor, dimensions = builder.graph.tensors[index], builder.model.operands[operand].dimensions
    shape = () if dimensions == (1,) and not tensor.initial_shape else dimensions
    usual = tensor.initial_shape if tensor.initial_shape != tensor.shape else ()
    element = user_element_type(tensor)
    return ImportedTensor(names.unique(name or tensor.name), operand, element, shape, index=index, usual_shape=usual)


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
