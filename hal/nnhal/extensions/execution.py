"""The extension ``nnhal.execution``: hints in the config of an execution.

It has one hint, PRIORITY: the HAL's number of a priority in four bytes, little-endian. It replaces the priority of the
prepared model for this execution. Like any priority it orders the executions of one client and gives no right against
others. A device that does not know the extension ignores the hint.
"""

from __future__ import annotations

from nnhal.errors import invalid_argument
from nnhal.extensions import extension_code
from nnhal.types import ExecutionConfig, ExtensionNameAndPrefix, Hints, Priority, TokenValuePair

NAME = "nnhal.execution"
PREFIX = 0x4E58
"""The prefix of the extension in configs made here; devices identify it by its name."""
PRIORITY = 0
"""The number of the hint."""
_BYTES = 4


def priority_hints(priority: Priority) -> Hints:
    hint = TokenValuePair(extension_code(PREFIX, PRIORITY), priority.to_bytes(_BYTES, "little"))
    return Hints((hint,), (ExtensionNameAndPrefix(NAME, PREFIX),))


def hinted_priority(config: ExecutionConfig) -> Priority | None:
    """Return the priority in a config, None if it has none. Raises INVALID_ARGUMENT if the hint's value is invalid."""
    if not config.execution_hints:
        return None
    tokens = {extension_code(entry.prefix, PRIORITY) for entry in config.extension_name_to_prefix if entry.name == NAME}
    for hint in config.execution_hints:
        if hint.token in tokens:
            return _priority(hint.value)
    return None


def _priority(value: bytes) -> Priority:
    number = int.from_bytes(value, "little")
    if len(value) != _BYTES or number > max(Priority):
        invalid_argument(
            f"the priority hint has {len(value)} bytes, {value[:_BYTES].hex(' ') or 'nothing'}, expected "
            f"{_BYTES} bytes with {min(Priority):d} to {max(Priority):d}, little-endian"
        )
    return Priority(number)
