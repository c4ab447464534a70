"""Some operators of a TFLite file as a model of their own, with the tensors at their border as inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tflite import TensorType

from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import FrontendError, InvalidModel, UnsupportedInput, UnsupportedNode, UnsupportedNodes
from nnhal_frontends.imported import FileNode, ImportedTensor
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.tflite.extension import keeps_state, subgraphs_within
from nnhal_frontends.tflite.graph import TfliteGraph, TfliteTensor
from nnhal_frontends.tflite.options import subgraphs_of
from nnhal_frontends.tflite.reader import OPERATOR_NAMES, read_file
from nnhal_frontends.tflite.signatures import TfliteSignature, entry_point
from nnhal_frontends.tflite.tensors import user_element_type
from nnhal_frontends.tflite.variables import CALL_ONCE, VAR_HANDLE

_HANDLES = (TensorType.RESOURCE, TensorType.VARIANT)
_KEPT = "variables"
"""What those operators read besides tensors that may give another result in each run."""
_TOGETHER = "variables and tables live where all of the model runs"


@dataclass(frozen=True, slots=True)
class TfliteFile:
    """A file that has been read, or what was made of one."""

    graphs: tuple[TfliteGraph, ...]
    signatures: tuple[TfliteSignature, ...]
    size: int
    """The bytes of the file."""
    content: ModelContent | None = None
    """The file; None if it says something else than the graphs."""

    @classmethod
    def read(cls, content: ModelContent, limits: ImportLimits) -> TfliteFile:
        """Read a file. Raises InvalidModel if it is malformed."""
        return cls(*read_file(content, limits), len(content), content)

    def with_dimensions(self, given: Mapping[int, Sequence[int]], signature: str | None = None) -> TfliteFile:
        """Return the model with other dimensions, -1 for open ones, of tensors in its main graph or a signature's.

        If an input has others than in the file, all axes of other tensors that operators write are open. Constants stay
        as they are. Raises InvalidModel for a tensor that the graph does not have.
        """
        if not given:
            return self
        number = 0 if signature is None else next((s.subgraph for s in self.signatures if s.name == signature), 0)
        graph = self.graphs[number]
        for index, dimensions in given.items():
            if not 0 <= index < len(graph.tensors) or min(dimensions, default=0) < -1:
                raise InvalidModel(
                    f"dimensions {list(dimensions)} are given for tensor {index} of {len(graph.tensors)}, "
                    "expected lengths, and -1 for open ones"
                )
        tensors = list(graph.tensors)
        if any(tuple(given.get(i, tensors[i].initial_shape)) != tensors[i].initial_shape for i in graph.inputs):
            for index in {index for operator in graph.operators for index in operator.outputs}:
                tensors[index] = tensors[index]._replace(shape=(0,) * len(tensors[index].shape))
        for index, dimensions in given.items():
            if tensors[index].data is None:
                tensors[index] = _shaped(tensors[index], dimensions)
        graphs = list(self.graphs)
        graphs[number] = replace(graph, tensors=tuple(tensors))
        return replace(self, graphs=tuple(graphs), content=None)


def _shaped(tensor: TfliteTensor, dimensions: Sequence[int]) -> TfliteTensor:
    shape = tuple(0 if length == -1 else length for length in dimensions)
    return tensor._replace(shape=shape, initial_shape=tuple(abs(length) for length in dimensions))


class TfliteParts:
    """The operators of a file, and models of some of them.

    Values are known by the indices of their tensors, as text.
    """

    is_interpreted = True

    @property
    def operators(self) -> Collection[str]:
        return OPERATOR_NAMES.values()

    def __init__(self, file: TfliteFile, signature: str | None = None) -> None:
        """Raises InvalidModel if there is no such signature."""
        self.model, self._signature = file, signature
        self._graphs = entry_point(file.graphs, file.signatures, signature).graphs
        graph = self._graphs[0]
        self.apart: Mapping[int, str] = dict(self._bound_to_the_whole())
        """Why operators cannot be in a part, though they may be in the whole model, by their numbers."""
        self.nodes: Sequence[FileNode] = [
            FileNode(
                operator.name,
                operator.op_type,
                tuple("" if index is None else str(index) for index in operator.inputs)
                + (_KEPT,) * (number in self.apart),
                tuple(map(str, operator.outputs)),
            )
            for number, operator in enumerate(graph.operators)
        ]
        self.constants: Collection[str] = {str(i) for i, tensor in enumerate(graph.tensors) if tensor.data is not None}
        self._writers = {index: number for number, each in enumerate(graph.operators) for index in each.outputs}
        self._constant: set[int] = set()
        for number, operator in enumerate(graph.operators):
            if number not in self.apart and all(index is None or self._is_constant(index) for index in operator.inputs):
                self._constant.add(number)
        self.is_shared = self._shares_variables()
        """True if the caller needs variables of this graph for others of the file."""

    def _shares_variables(self) -> bool:
        graph, others = self._graphs[0], self._graphs[1:]
        begun = {n for each in graph.operators if each.op_type == CALL_ONCE for n in subgraphs_of(each).values()}
        used = {name for number, other in enumerate(others, 1) if number not in begun for name in _variables(other)}
        return not used.isdisjoint(_variables(graph))

    def members(self, numbers: Sequence[int], left: Collection[int]) -> tuple[int, ...]:
        """Return the operators of a part, ascending: with those that compute its constants and are not left."""
        found, waiting = set(numbers), list(numbers)
        while waiting:
            for index in self._graphs[0].operators[waiting.pop()].inputs:
                writer = self._writers.get(index) if index is not None else None
                if writer in self._constant and writer not in left and writer not in found:
                    found.add(writer)
                    waiting.append(writer)
        return tuple(sorted(found))

    def part(self, numbers: Sequence[int]) -> TfliteFile:
        """Return the model of some operators, ascending. It writes what others read, or the user of the file.

        Raises InvalidModel if nothing is read or written.
        """
        graph, inside = self._graphs[0], set(numbers)
        chosen = [graph.operators[number] for number in numbers]
        written = dict.fromkeys(index for operator in chosen for index in operator.outputs)
        read = dict.fromkeys(index for each in chosen for index in each.inputs if index is not None)
        own = graph.tensors
        inputs = [i for i in read if i not in written and own[i].data is None and not own[i].variable]
        wanted = {
            *graph.outputs,
            *(i for n, each in enumerate(graph.operators) if n not in inside for i in each.inputs),
        }
        outputs = [index for index in written if index in wanted and self._writers[index] not in self._constant]
        if not inputs or not outputs:
            raise InvalidModel(f"the part has no {'outputs' if inputs else 'inputs'}")
        tensors, given = list(own), set(graph.inputs)
        for index in inputs:
            if index not in given:  # an interpreter gives it the lengths of the run
                tensors[index] = own[index]._replace(initial_shape=own[index].shape)
        main = TfliteGraph(tuple(tensors), tuple(chosen), tuple(inputs), tuple(outputs))
        return TfliteFile((main, *self._graphs[1:]), (), self.model.size)

    def value(self, tensor: ImportedTensor) -> str:
        """Return what an input or output of an imported part is called here."""
        return str(tensor.index)

    def refused(self, error: FrontendError) -> dict[int, str]:
        """Return the operators that an import has refused, and why; none if that is unknown."""
        if isinstance(error, UnsupportedInput):
            return dict(self._of_unknown_types())
        if not isinstance(error, UnsupportedNode):
            return {}
        return {
            number: each.args[0]
            for each in (error.refused if isinstance(error, UnsupportedNodes) else (error,))
            for number in self._named(each.node)
        }

    def _named(self, name: str) -> list[int]:
        """Return the operators with a name, or around one of that name: control flow, or a composite."""
        operators = self._graphs[0].operators
        found = [number for number, each in enumerate(operators) if f"{name}/".startswith(f"{each.name}/")]
        place, _, subgraph = name.partition("/")[0].partition("_")
        if found or place != "subgraph" or not subgraph.isdecimal():
            return found
        within = (subgraphs_within(self._graphs, operator) for operator in operators)
        return [number for number, parts in enumerate(within) if int(subgraph) in parts]

    def _is_constant(self, index: int) -> bool:
        return self._graphs[0].tensors[index].data is not None or self._writers.get(index) in self._constant

    def _bound_to_the_whole(self) -> Iterator[tuple[int, str]]:
        graph = self._graphs[0]
        used = Counter(index for each in graph.operators for index in set(each.inputs) if index is not None)
        for number, operator in enumerate(graph.operators):
            ends = {index for index in (*operator.inputs, *operator.outputs) if index is not None}
            if operator.op_type == CALL_ONCE or any(graph.tensors[index].code in _HANDLES for index in ends):
                yield number, _TOGETHER
            elif any(graph.tensors[index].variable and used[index] > 1 for index in ends):
                yield number, "another operator has its variable too"
            elif any(map(keeps_state, subgraphs_within(self._graphs, operator).values())):
                yield number, "a subgraph of it has variables"

    def _of_unknown_types(self) -> Iterator[tuple[int, str]]:
        graph = self._graphs[0]
        for number, operator in enumerate(graph.operators):
            try:
                for index in (*operator.inputs, *operator.outputs):
                    if index is not None:
                        user_element_type(graph.tensors[index])
            except ValueError as error:
                yield number, str(error)


def _variables(graph: TfliteGraph) -> set[str]:
    return {operator.text for operator in graph.operators if operator.op_type == VAR_HANDLE}
