"""Steps of an imported model in ONNX's own words: the nodes of the file between two sets of tensors.

A device that has an ONNX runtime optimises the nodes of the file better than the HAL's operations that were made of
them. A step's operations and its nodes compute the same; which of the two a device is given is for the framework.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import MESSAGE, NAME, NUMBERS, OPERATION, PREFIX, VALUE, fresh, number_of, operand_code
from nnhal.memory import create_read_only
from nnhal.types import (
    Ashmem,
    DataLocation,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    OperandLifeTime,
    Operation,
    Subgraph,
)
from nnhal.types.layout import ELEMENT_TYPES, is_extension
from nnhal_frontends.builder import POOL_ALIGNMENT
from nnhal_frontends.onnx.builder import OPERAND_TYPES
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode, TensorInfo, all_inputs, names_read
from nnhal_frontends.weights_pool import pool_of

MOST_HELD_BYTES = 1024
"""Constants up to this size lie in the message, which shape inference needs of those that say sizes."""
_IR_VERSION = 10
_MESSAGE_POOL = 0


@dataclass(frozen=True, slots=True)
class _Constant:
    """A large constant, which lies in the pool."""

    element_type: np.dtype[np.generic]
    shape: tuple[int, ...]
    location: DataLocation


class OnnxSource:
    """The nodes of a model, from which steps can be made. Safe to use from several threads."""

    extension = NAME

    def __init__(self, graph: OnnxGraph, tensors: Mapping[int, str]) -> None:
        """``tensors`` are the names of the graph's tensors by the operand of main that holds exactly their elements."""
        self._nodes, self._infos, self._imports = graph.nodes, graph.tensors, graph.imports
        self._tensors, self._taken = dict(tensors), graph.taken
        self._producers = {name: number for number, node in enumerate(graph.nodes) for name in node.outputs if name}
        self._lock = threading.Lock()
        self._constants: dict[str, Array | _Constant] = dict(graph.constants)
        self._weights, self._wanted = graph.weights, set(graph.outputs.values())
        self._pools: list[Ashmem] = []
        """What the large constants lie in, as soon as a step was made. They follow the pool of the message."""
        self._is_pooled = False

    def model_of(self, step: Model, inputs: Sequence[int], outputs: Sequence[int]) -> Model | None:
        """Return the model with one RUN that computes what ``step`` does; None if the nodes of the file cannot.

        ``inputs`` and ``outputs`` are the operands of the imported model that the step reads and writes, in the order
        of its own. The nodes cannot if a pass has merged some that lie on both sides of the step's border.
        """
        main = step.main
        given = {
            self._tensors.get(operand, ""): index for operand, index in zip(inputs, main.input_indexes, strict=True)
        }
        given.pop("", None)
        wanted = [self._tensors.get(operand, "") for operand in outputs]
        borders = [*given.items(), *zip(wanted, main.output_indexes, strict=True)]
        if not all(self._is_held(step, name, main.operands[index]) for name, index in borders):
            return None
        nodes = self._between(given, wanted)
        protos = None if nodes is None else _protos(nodes)
        if protos is None:
            return None
        made = {name for proto in protos for name in proto.output}
        formal: list[str] = []
        for name in wanted:  # each output is a tensor of its own, which a node makes
            if name in made and name not in formal:
                formal.append(name)
                continue
            formal.append(fresh(f"{name}/output{len(formal)}", self._taken))
            protos.append(helper.make_node("Identity", [name], formal[-1:]))
        read = names_read(protos)
        if not all(name in given or name in self._constants for name in read):
            return None
        used = {name: index for name, index in given.items() if name in read}
        return self._model(step, used, [name for name in read if name not in given], wanted, formal, protos)

    def _is_held(self, step: Model, name: str, operand: Operand) -> bool:
        """Return whether an operand of a step has exactly the elements of a tensor."""
        info = self._infos.get(name)
        if info is None:
            return False
        if is_extension(operand.type):
            return number_of(step, operand.type) == NUMBERS.get(info.element_type, VALUE)
        code = OPERAND_TYPES.get(info.element_type)
        return code == operand.type and ELEMENT_TYPES[code].itemsize == info.element_type.itemsize

    def _between(self, given: Collection[str], wanted: Iterable[str]) -> list[OnnxNode] | None:
        """Return the nodes that compute tensors from others and constants; None if these do not suffice."""
        found: set[int] = set()
        pending, seen = list(wanted), {"", *given}
        while pending:
            name = pending.pop()
            if name in seen or name in self._constants:
                continue
            seen.add(name)
            if name not in self._producers:
                return None
            found.add(self._producers[name])
            pending += self._nodes[self._producers[name]].inputs
        return [self._nodes[number] for number in sorted(found)]

    def _model(
        self,
        step: Model,
        given: Mapping[str, int],
        constants: Iterable[str],
        wanted: Sequence[str],
        formal: Sequence[str],
        protos: Sequence[onnx.NodeProto],
    ) -> Model:
        main = step.main
        small, large = self._sorted(constants)
        graph = helper.make_graph(
            protos,
            "step",
            [
                *(_declared(name, self._infos[name], main.operands[index]) for name, index in given.items()),
                *(
                    helper.make_tensor_value_info(
                        name, helper.np_dtype_to_tensor_dtype(values.element_type), values.shape
                    )
                    for name, values in large.items()
                ),
            ],
            [
                _declared(own, self._infos[name], main.operands[index])
                for own, name, index in zip(formal, wanted, main.output_indexes, strict=True)
            ],
            [numpy_helper.from_array(values, name) for name, values in small.items()],
        )
        message = helper.make_model(graph, opset_imports=self._imports, ir_version=_IR_VERSION).SerializeToString()
        builder = _RunBuilder(step)
        builder.add(given.values(), message, large.values())
        pools = (create_read_only([(0, np.frombuffer(message, np.uint8))], len(message), "nnhal-message"),)
        return builder.build((*pools, *self._pools))

    def _sorted(self, names: Iterable[str]) -> tuple[dict[str, Array], dict[str, _Constant]]:
        """Return the small constants with their values, and the large ones, which lie in the pool from now on."""
        with self._lock:
            if not self._is_pooled:
                self._fill_pool()
        small: dict[str, Array] = {}
        large: dict[str, _Constant] = {}
        for name in names:
            values = self._constants[name]
            if isinstance(values, _Constant):
                large[name] = values
            else:
                small[name] = values
        return small, large

    def _fill_pool(self) -> None:
        """Move the large constants to a pool, which all steps share, but for those that lie in one already."""
        read = {name for node in self._nodes for name in node.inputs}
        pools = [pool.memory for pool in self._weights.values()]
        contents: list[tuple[int, Array]] = []
        end = 0
        for name, values in list(self._constants.items()):
            if isinstance(values, _Constant) or values.nbytes <= MOST_HELD_BYTES or values.dtype not in NUMBERS:
                continue
            if name not in read and name not in self._wanted:
                del self._constants[name]
                continue
            found = pool_of(self._weights, values)
            if found is None:
                raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
                start = end + -end % POOL_ALIGNMENT
                end = start + len(raw)
                contents.append((start, raw))
                number = len(pools)
            else:
                number, start = pools.index(found[0].memory), found[1]
            location = DataLocation(_MESSAGE_POOL + 1 + number, start, values.nbytes)
            self._constants[name] = _Constant(values.dtype, values.shape, location)
        self._pools = [*pools, create_read_only(contents, end, "nnhal-source")] if contents else pools
        self._is_pooled = True


class _RunBuilder:
    """Builds the model of one RUN with the inputs and outputs of a step."""

    def __init__(self, step: Model) -> None:
        self._step = step
        self._operands: list[Operand] = []
        main = step.main
        self._numbers = {
            index: self._add(main.operands[index]) for index in (*main.input_indexes, *main.output_indexes)
        }
        self._read: list[int] = []

    def add(self, given: Iterable[int], message: bytes, constants: Iterable[_Constant]) -> None:
        """Add the message, what it reads of the step's inputs, and constants."""
        pool = DataLocation(_MESSAGE_POOL, 0, len(message))
        self._read = [
            self._constant(MESSAGE, (len(message),), pool),
            *(self._numbers[index] for index in given),
            *(self._constant(NUMBERS[c.element_type], c.shape, c.location) for c in constants),
        ]

    def build(self, pools: tuple[Ashmem, ...]) -> Model:
        main = self._step.main
        inputs, outputs = (
            tuple(self._numbers[index] for index in indexes) for indexes in (main.input_indexes, main.output_indexes)
        )
        run = Operation(OPERATION, tuple(self._read), outputs)
        return replace(
            self._step,
            main=Subgraph(tuple(self._operands), (run,), inputs, outputs),
            referenced=(),
            operand_values=b"",
            pools=pools,
            extension_name_to_prefix=(ExtensionNameAndPrefix(NAME, PREFIX),),
        )

    def _constant(self, number: int, dimensions: tuple[int, ...], location: DataLocation) -> int:
        code = operand_code(number)
        return self._add(Operand(code, dimensions, lifetime=OperandLifeTime.CONSTANT_POOL, location=location))

    def _add(self, operand: Operand) -> int:
        self._operands.append(operand)
        return len(self._operands) - 1


def _protos(nodes: Iterable[OnnxNode]) -> list[onnx.NodeProto] | None:
    """Return nodes as messages; None if a subgraph reads a tensor under a name that the graph has for another."""
    protos: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}
    for node in nodes:
        proto = _proto(node)
        written = all_inputs(proto)
        if written != node.inputs:
            renamed.update((old, new) for old, new in zip(written, node.inputs, strict=True) if old != new)
        protos.append(proto)
    made = {name for proto in protos for name in proto.output}
    if not made.isdisjoint(renamed):
        return None
    return [helper.make_node("Identity", [new], [old]) for old, new in renamed.items()] + protos


def _proto(node: OnnxNode) -> onnx.NodeProto:
    """Return a node as a message that reads its present inputs, but for those of subgraphs."""
    if node.source is None:
        return helper.make_node(node.op_type, node.inputs, node.outputs, node.name, **node.attributes)
    own = len(node.source.input)
    same_inputs = tuple(node.source.input) == node.inputs[:own]
    if same_inputs and len(node.attributes) == len(node.source.attribute):
        return node.source
    proto = onnx.NodeProto()
    proto.CopyFrom(node.source)
    proto.ClearField("input")
    proto.input.extend(node.inputs[:own])
    proto.ClearField("attribute")
    proto.attribute.extend(entry for entry in node.source.attribute if entry.name in node.attributes)
    return proto


def _declared(name: str, info: TensorInfo, operand: Operand) -> onnx.ValueInfoProto:
    """Return the type of a tensor, with the dimensions of its operand as far as the tensor has none of its own."""
    if info.proto is not None and (info.element_type.kind == "O" or info.shape is None):
        return helper.make_value_info(name, info.proto)
    element_type = helper.np_dtype_to_tensor_dtype(info.element_type)
    if info.shape is None:
        return helper.make_tensor_value_info(name, element_type, None)
    known = operand.dimensions if len(operand.dimensions) == len(info.shape) else info.shape
    symbols = info.symbols or ("",) * len(info.shape)
    shape = [
        length or other or symbol or None for length, other, symbol in zip(info.shape, known, symbols, strict=True)
    ]
    return helper.make_tensor_value_info(name, element_type, shape)
