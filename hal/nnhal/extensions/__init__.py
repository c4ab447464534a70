"""Extensions: named sets of operand and operation types beyond the HAL's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod

from nnhal.types import Extension, Model
from nnhal.types.layout import Dimensions, byte_size, is_extension

_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")


def is_extension_name(name: str) -> bool:
    """Return whether an extension may have a name: lower-case letters, digits, '.' and '_', with at least one dot."""
    return _NAME.fullmatch(name) is not None


def extension_code(prefix: int, number: int) -> int:
    """Return the code of an extension's operand or operation type in a model that has given the extension a prefix."""
    return prefix << 16 | number


def split_code(code: int) -> tuple[int, int]:
    return code >> 16, code & 0xFFFF


def type_in_words(model: Model, code: int) -> str:
    """Name an extension's operand or operation type for messages: ``7 of com.example.ops``."""
    prefix, number = split_code(code)
    name = next((entry.name for entry in model.extension_name_to_prefix if entry.prefix == prefix), None)
    return f"{code:#x} of an extension" if name is None else f"{number} of {name}"


def element_sizes(model: Model, extensions: Iterable[Extension]) -> dict[int, int]:
    """Return the bytes of one element by operand code, for the types of ``extensions`` that the model uses."""
    prefixes = {entry.name: entry.prefix for entry in model.extension_name_to_prefix}
    return {
        extension_code(prefixes[extension.name], entry.type): entry.byte_size
        for extension in extensions
        if extension.name in prefixes
        for entry in extension.operand_types
    }


def size_in_bytes(code: int, dimensions: Dimensions, sizes: Mapping[int, int]) -> int:
    """Return the bytes of an operand of any type; 0 if a dimension is unknown. ``sizes`` are those of element_sizes."""
    if not is_extension(code):
        return byte_size(code, dimensions)
    return sizes.get(code, 0) * prod(dimensions) if dimensions else 0
