"""What ONNX Runtime says of a failure, without its source files and signatures."""

from __future__ import annotations

import re

from nnhal.errors import HalError
from nnhal.types import ErrorStatus

_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE = re.compile(r"(?:/\S*/)?[\w.]+\.(?:cc|h|cpp|cu|hpp):\d+ ")
_SIGNATURE = re.compile(
    r"(?:\b(?:virtual|static|void|bool)\b[\w\s:<>*&,~]*|[\w:<>*&]+ )?[\w:<>~]*::[\w~<>:]+\([^()]*\)(?: const)? "
)
_NO_MEMORY = re.compile(r"Failed to allocate memory(?: for requested buffer of size (\d+))?|bad_alloc|bad allocation")
_MOST_CHARACTERS = 500


def words_of(error: Exception) -> str:
    """The words of an error of ONNX Runtime."""
    text = _SIGNATURE.sub("", _SOURCE.sub("", _CODE.sub("", str(error))))
    return " ".join(text.split())[:_MOST_CHARACTERS] or "it gives no reason"


def runtime_failure(what: str, error: Exception) -> HalError:
    """The failure of ONNX Runtime: RESOURCE_EXHAUSTED_TRANSIENT if it has no memory, else GENERAL_FAILURE."""
    found = _NO_MEMORY.search(str(error))
    if found or isinstance(error, MemoryError):
        size = f" for {found.group(1)} bytes" if found and found.group(1) else ""
        return HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"{what}: the host has no memory left{size}")
    return HalError(ErrorStatus.GENERAL_FAILURE, f"{what}: {words_of(error)}")
