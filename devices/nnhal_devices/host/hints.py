"""Rules about hints (contract rows PM-15 and RE-07)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnhal.errors import invalid_argument
from nnhal.types import ExtensionNameAndPrefix, TokenValuePair


def validate_hints(hints: Sequence[TokenValuePair], names: Iterable[ExtensionNameAndPrefix]) -> None:
    """Check that tokens are unique and that each has a prefix that is mapped to an extension.

    The extension says what a hint means; a hint of an unknown extension is ignored. Raises INVALID_ARGUMENT.
    """
    tokens = [hint.token for hint in hints]
    if len(set(tokens)) < len(tokens):
        invalid_argument(f"hint tokens {tokens} are not unique")
    prefixes = {entry.prefix for entry in names}
    for token in tokens:
        if token >> 16 not in prefixes:
            invalid_argument(f"hint {token:#x} has prefix {token >> 16}, which is mapped to no extension")
