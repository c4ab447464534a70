"""Values as they may travel on the wire, and a fake link that numbers their descriptors."""

from __future__ import annotations

import os

from hypothesis import strategies as st

from nnhal.descriptor import Descriptor
from nnhal.types import (
    Ashmem,
    DataLocation,
    ExtensionNameAndPrefix,
    HardwareBuffer,
    MappableFile,
    NativeHandle,
    TokenValuePair,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)
DIMENSIONS = st.lists(INT32, max_size=4).map(tuple)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DESCRIPTORS = st.builds(lambda: Descriptor(os.dup(0)))

MEMORIES = st.one_of(
    st.builds(Ashmem, DESCRIPTORS, INT64),
    st.builds(MappableFile, DESCRIPTORS, INT64, INT32, INT64),
    st.builds(
        HardwareBuffer,
        st.builds(NativeHandle, st.lists(DESCRIPTORS, max_size=3).map(tuple), st.lists(INT32, max_size=12).map(tuple)),
    ),
)
LOCATIONS = st.builds(DataLocation, INT32, INT64, INT64, INT64)
EXTENSION_NAMES = st.lists(st.builds(ExtensionNameAndPrefix, TEXT, INT32), max_size=3).map(tuple)
HINTS = st.lists(st.builds(TokenValuePair, INT32, st.binary(max_size=8)), max_size=3).map(tuple)


class Numbers:
    """Descriptors by number: ``issue`` for encoding, ``resolve`` for decoding."""

    def __init__(self) -> None:
        self._descriptors: list[Descriptor] = []

    def issue(self, descriptor: Descriptor) -> int:
        self._descriptors.append(descriptor)
        return len(self._descriptors)

    def resolve(self, number: int) -> Descriptor:
        return self._descriptors[number - 1]
