"""ONNX Runtime's words for a failure, without its source files and signatures."""

from __future__ import annotations

import re

from nnhal.errors import HalError
from nnhal.types import ErrorStatus

_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE = re.compile(r"(?:/\S*/)?[\w.]+\.(?:cc|h|cpp|cu|hpp):\d+ ")
_SIGNATURE = re.compile(
    r"(?:\b(?:virtual|static|void|bool)\b[\w\s:<>*&,~]*|[\w:<>*&]+ )?[\w:<>~]*::[\w~<>:]+\([^()]*\)(?: const)? "
)
_NODE = re.compile(
    r"(?:Error in execution: )?Non-zero status code returned while running (\S+) node\. Name:'(.*?)' Status Message: "
)
_LOWERED = re.compile(r"(operation \d+ \(.*\)) \d+")
"""The name of a node that the lowering has made: its operation, and a number."""
_NO_MEMORY = re.compile(r"Failed to allocate memory(?: for requested buffer of size (\d+))?|bad_alloc|bad allocation")
_MOST_CHARACTERS = 500


def words_of(error: Exception) -> str:
    """The words of an error of ONNX Runtime."""
    text = _SIGNATURE.sub("", _SOURCE.sub("", _NODE.sub(_where, _CODE.sub("", str(error)))))
    return " ".join(text.split())[:_MOST_CHARACTERS] or "it gives no reason"


def _where(node: re.Match[str]) -> str:
    """A node that failed, and in a subgraph those around it too: its operator, and its name in the message if any."""
    operator, name = node.groups()
    lowered = _LOWERED.fullmatch(name)
    return f"{lowered[1]}: " if lowered else f"{operator} '{name}': " if name else f"{operator}: "


def runtime_failure(what: str, error: Exception) -> HalError:
    """The failure of ONNX Runtime: RESOURCE_EXHAUSTED_TRANSIENT if it has no memory, else GENERAL_FAILURE."""
    found = _NO_MEMORY.search(str(error))
    if found or isinstance(error, MemoryError):
        size = f" for {found.group(1)} bytes" if found and found.group(1) else ""
        return HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"{what}: the host has no memory left{size}")
    return HalError(ErrorStatus.GENERAL_FAILURE, f"{what}: {words_of(error)}")
