"""What can go wrong when the simulator runs a program.

SimulatorError
├── ProgramFaultError
│   └── StaleBytesError
└── SimulatorInputError
"""

from __future__ import annotations

from nnhal.errors import NnhalError


class SimulatorError(NnhalError):
    """A program cannot be run. The message says what was got, what was expected and where."""


class ProgramFaultError(SimulatorError):
    """A program asks for what is not there, contradicts itself, or would wait for ever."""


class StaleBytesError(ProgramFaultError):
    """A program reads bytes that do not hold what it expects: overwritten, or never written."""


class SimulatorInputError(SimulatorError):
    """The inputs of a run are not what the program takes."""
