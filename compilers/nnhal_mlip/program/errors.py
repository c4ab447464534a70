"""Errors of programs and binaries."""

from __future__ import annotations

from enum import Enum

from nnhal.errors import NnhalError


class BinaryFault(Enum):
    """Fault of a binary. Up to RELOCATABLE these are the checks of the driver, in its order."""

    SIZE = "size"
    """It is shorter than its metadata, or longer than what they describe."""
    HEADER_CRC = "header CRC"
    PAYLOAD_CRC = "payload CRC"
    MAGIC = "magic"
    ARCHITECTURE = "target architecture"
    VERSION = "version"
    SECTION = "section"
    COUNT = "count"
    TYPE = "type"
    RELOCATABLE = "relocatable flag"
    METADATA = "metadata"
    """They contradict the program."""
    CODE = "code"
    """A section is no code of this emulator's."""
    PROGRAM = "program"
    """It cannot run."""


class BinaryError(NnhalError):
    """A binary that is damaged, or not of this emulator. The message says what was got, what was expected and where."""

    def __init__(self, fault: BinaryFault, what: str, got: object, expected: str, offset: int) -> None:
        super().__init__(f"{what} is {got}, expected {expected} (byte {offset} of the binary)")
        self.fault = fault
        self.what = what
        self.got = got
        self.expected = expected
        self.offset = offset
        """In bytes from the binary's start; that of the section if it is a sound one whose program cannot run."""


class ProgramError(NnhalError):
    """A program that cannot run. The message says what was got, what was expected and where."""

    def __init__(self, what: str, got: object, expected: str) -> None:
        super().__init__(f"{what} is {got}, expected {expected}")
        self.what = what
        self.got = got
        self.expected = expected
