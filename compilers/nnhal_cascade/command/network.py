"""A model file as the graph that is planned, or what a device without help cannot run of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.support import Unsupported
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.graph.paddings import fold_paddings
from nnhal_cascade.support import supported_operations
from nnhal_frontends import import_file


class UnsupportedNetworkError(ValueError):
    """Some operations of a network do not run on the device."""

    def __init__(self, name: str, total: int, reasons: Sequence[UnsupportedOperations]) -> None:
        count = sum(len(each.operations) for each in reasons)
        lines = [f"{name}: ethos_u runs {total - count} of {total} operations, and has to run all of them"]
        lines += [f"  {each}" for each in reasons]
        super().__init__("\n".join(lines))
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True)
class UnsupportedOperations:
    """Operations that a device refuses for one reason."""

    operations: tuple[str, ...]
    """Such as ``operation 3 (SOFTMAX)``."""
    reason: str

    def __str__(self) -> str:
        first, *more = self.operations
        others = f" and {len(more)} more, up to {more[-1]}" if more else ""
        return f"{first}{others}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Network:
    """A model that the device runs from its inputs to its outputs."""

    name: str
    """The name of its file."""
    model: ResolvedModel
    graph: CascaderGraph


def read_network(path: Path) -> Network:
    """Read an ONNX or TFLite model.

    Raises:
        OSError: the file cannot be read.
        FrontendError: it is no model that the HAL can express.
        UnsupportedNetworkError: the device refuses an operation; all that it refuses are named.
        ValueError: the network has no parts that can be planned.
    """
    model = import_file(path).resolved()
    _check_support(path.name, model)
    model = fold_paddings(model)
    return Network(path.name, model, build_graph(model))


def _check_support(name: str, model: ResolvedModel) -> None:
    refused: dict[str, list[str]] = {}
    answers = supported_operations(model)
    for number, answer in enumerate(answers):
        if not isinstance(answer, Unsupported):
            continue
        reason = f"got {answer.got}, expected {answer.allowed}" + (f"; {answer.hint}" if answer.hint else "")
        refused.setdefault(reason, []).append(describe_operation(model.model, number))
    if refused:
        reasons = [UnsupportedOperations(tuple(found), reason) for reason, found in refused.items()]
        raise UnsupportedNetworkError(name, len(answers), reasons)
