"""Hints that an application collects for a device: attributes that extensions define."""

from __future__ import annotations

from collections.abc import Set

from nnhal.types import ExtensionNameAndPrefix, Hints, TokenValuePair
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode

_CODES = 1 << 16
"""How many attributes an extension may have."""


class HintList:
    """Hints in the making. Each extension gets the next prefix."""

    def __init__(self) -> None:
        self._prefixes: dict[str, int] = {}
        self._values: dict[int, bytes] = {}

    def add(self, known: Set[str], extension: str, code: int, data: bytes) -> None:
        """Add one. ``known`` are the extensions that the device has.

        Raises BAD_DATA for another extension, and for a code that is none or was given before.
        """
        if extension not in known:
            raise NeuralNetworksError(
                ResultCode.BAD_DATA, f"extension {extension!r}, expected one of {sorted(known)}, which the device has"
            )
        if not 0 <= code < _CODES:
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"attribute {code}, expected 0 to {_CODES - 1}")
        prefix = self._prefixes.get(extension, len(self._prefixes) + 1)
        token = prefix * _CODES + code
        if token in self._values:
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"attribute {code} of {extension!r} is given twice")
        self._prefixes[extension] = prefix
        self._values[token] = bytes(data)

    @property
    def hints(self) -> Hints:
        """What devices are told."""
        return Hints(
            tuple(TokenValuePair(token, value) for token, value in self._values.items()),
            tuple(ExtensionNameAndPrefix(name, prefix) for name, prefix in self._prefixes.items()),
        )
