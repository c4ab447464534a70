"""RUN of nnhal.onnx, computed by ONNX's own reference evaluator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError, general_failure
from nnhal.exhaustion import lack_of
from nnhal.extensions.onnx import ELEMENT_TYPES, VALUE, number_of, tensor_in_another_file
from nnhal.extensions.onnx_ranges import CHECKS, require_in_range
from nnhal.extensions.values import Value, value_from_bytes, value_to_bytes
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import ErrorStatus, Model, Operand, Operation, Subgraph
from nnhal.types.layout import ELEMENT_TYPES as BASE_TYPES
from nnhal.types.layout import is_extension
from nnhal_devices.cpu_ref import litert
from nnhal_devices.driver import Control
from nnhal_devices.message_dimensions import contradiction

if TYPE_CHECKING:
    from onnx import NodeProto, TypeProto
    from onnx.reference import ReferenceEvaluator


def element_type(model: Model, code: int) -> np.dtype[np.generic]:
    """The numpy type of an operand's elements in memory."""
    of_litert = litert.element_type(model, code) if is_extension(code) else None
    if of_litert is not None:
        return of_litert
    number = number_of(model, code)
    return BASE_TYPES[code] if number is None else ELEMENT_TYPES.get(number, np.dtype(np.uint8))


def support_run(message: Array | None, graph: Subgraph, operation: Operation) -> Support:
    """Return if the evaluator supports an operation. ``message`` is its first input, None if that is no constant."""
    if message is None:
        return Unsupported("OP", "a first input that is no constant MESSAGE", "a message")
    try:
        evaluator = _evaluator(message.tobytes())
    except Exception as error:  # it may raise anything
        return Unsupported("OP", str(error), "what ONNX's reference evaluator has")
    if refused := _refusal(evaluator):
        return refused
    if difference := contradiction(message.tobytes(), graph, operation):
        return Unsupported("SHAPE", difference, "operands like those of the message's graph")
    return SUPPORTED


def _refusal(evaluator: ReferenceEvaluator) -> Unsupported | None:
    from nnhal_devices.cpu_ref.onnx_refusals import refusal

    proto: Any = evaluator.proto_
    return refusal(proto)


AlterNode = Callable[[str, Sequence[Any]], tuple[Any, ...]]
"""Given the place of a node, as Alteration has it, and its results, returns those that the others compute with."""


def run(
    model: Model,
    place: str,
    outputs: Sequence[Operand],
    inputs: Sequence[Array | None],
    control: Control,
    alter: AlterNode | None = None,
) -> tuple[Array, ...]:
    """Compute an operation. Its message is the first of ``inputs``. Raises GENERAL_FAILURE, and as ``control`` does."""
    message, *given = inputs
    if message is None:
        general_failure(f"{place}: its message is omitted")
    evaluator = _evaluator(message.tobytes()) if alter is None else _altering(message.tobytes(), alter)
    _this_thread.control = control
    graph: Any = evaluator.proto_.graph
    try:
        feeds = {d.name: _given(d.type, array) for d, array in zip(graph.input, given, strict=True)}
        with np.errstate(all="ignore"):  # infinities and NaN are results like others
            results = evaluator.run(None, feeds)
    except MemoryError as error:
        raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"{place}: {lack_of(error)}") from error
    except Exception as error:  # it may raise anything
        control.check()
        general_failure(f"{place}: {error}")
    finally:
        del _this_thread.control
    return tuple(
        _stored(element_type(model, operand.type), number_of(model, operand.type) == VALUE, operand, result)
        for operand, result in zip(outputs, results, strict=True)
    )


def _altering(message: bytes, alter: AlterNode) -> ReferenceEvaluator:
    """Return an evaluator for one run, in which the results of nodes are altered."""
    evaluator = _evaluator.__wrapped__(message)
    _alter_within(evaluator, "", alter)
    return evaluator


def _alter_within(evaluator: ReferenceEvaluator, before: str, alter: AlterNode) -> None:
    for node in evaluator.rt_nodes_:
        place = node_place(before, node.onnx_node)
        node.run = _altered_run(node, place, alter)
        for attribute in node.onnx_node.attribute:
            if attribute.HasField("g"):
                _alter_within(getattr(node, attribute.name), f"{place}/{attribute.name}/", alter)


def _altered_run(node: Any, place: str, alter: AlterNode) -> Callable[..., tuple[Any, ...]]:
    run = node.run

    def altered(*inputs: Any, **options: Any) -> tuple[Any, ...]:
        return alter(place, run(*inputs, **options))

    return altered


def node_place(before: str, node: NodeProto) -> str:
    """Return the place of a node, as Alteration has it; ``before`` is what comes before those of its graph."""
    return before + next((output for output in node.output if output), "")


@lru_cache(maxsize=256)
def _evaluator(message: bytes) -> ReferenceEvaluator:
    # Models without the extension need no ONNX.
    from onnx import ModelProto

    from nnhal_devices.cpu_ref.onnx_operators import OPERATORS

    proto = ModelProto.FromString(message)
    elsewhere = tensor_in_another_file(proto)
    if elsewhere is not None:
        raise ValueError(f"the values of tensor '{elsewhere}' lie in another file")
    return _stoppable()(proto, new_ops=[*OPERATORS])


@lru_cache(maxsize=1)
def _stoppable() -> type[ReferenceEvaluator]:
    """The evaluator, which looks whether the thread's run is to end before each node and each turn of a loop.

    It refuses inputs for which an operator has no result.
    """
    from onnx.reference import ReferenceEvaluator

    class StoppableEvaluator(ReferenceEvaluator):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            for node in self.rt_nodes_:
                if node.onnx_node.domain in ("", "ai.onnx") and node.onnx_node.op_type in CHECKS:
                    node.run = _checked_run(node)

        # Graphs within operators are evaluators of the same class.
        def run(self, *arguments: Any, **options: Any) -> Any:
            _this_thread.control.check()
            return super().run(*arguments, **options)

        def _log(self, *_: Any) -> None:
            """Called for each node. Nothing is logged here."""
            _this_thread.control.check()

    return StoppableEvaluator


def _checked_run(node: Any) -> Callable[..., tuple[Any, ...]]:
    from onnx import helper

    run: Callable[..., tuple[Any, ...]] = node.run
    operator = node.onnx_node.op_type
    attributes = {a.name: helper.get_attribute_value(a) for a in node.onnx_node.attribute if not a.ref_attr_name}

    def checked(*inputs: Any, **options: Any) -> tuple[Any, ...]:
        require_in_range(operator, inputs, attributes)
        return run(*inputs, **options)

    return checked


class _ThisThread(threading.local):
    """The run of a thread: evaluators are shared by threads."""

    control = Control()


_this_thread = _ThisThread()


def _given(declared: TypeProto, array: Array | None) -> Value:
    """An input in the form that the message declares."""
    kind = declared.tensor_type
    if array is None:
        return None
    if declared.WhichOneof("value") != "tensor_type" or kind.elem_type not in ELEMENT_TYPES:
        return value_from_bytes(array)
    element = ELEMENT_TYPES[kind.elem_type]
    # Constants of an extension's types come as bytes.
    given = array.astype(np.bool_) if element == np.bool_ else array.view(element)
    rank_known = kind.HasField("shape")
    if rank_known and all(dim.dim_value for dim in kind.shape.dim):
        return given.reshape([dim.dim_value for dim in kind.shape.dim])
    return given


def _stored(element: np.dtype[np.generic], is_value: bool, operand: Operand, result: Value) -> Array:
    """A result in the form that it has in memory; of rank 0 only if the rank of its operand is unknown."""
    if is_value:
        is_none = isinstance(result, list) and any(each is None for each in result)  # as Optional has it
        return np.frombuffer(value_to_bytes(None if is_none else result), np.uint8)
    array = np.asarray(result).astype(element, copy=False)
    return np.atleast_1d(array) if operand.dimensions else array
