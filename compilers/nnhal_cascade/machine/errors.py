"""Errors of a machine that runs a stream: all of it is the stream's fault.

MachineError
├── StreamError
└── OverwrittenError
"""

from __future__ import annotations


class MachineError(Exception):
    """A stream cannot be run."""


class StreamError(MachineError):
    """A command asks for what is not there, or makes no sense after those before it."""


class OverwrittenError(MachineError):
    """A stripe reads memory that does not hold what it expects: overwritten, dead, or never written."""
