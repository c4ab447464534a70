"""Errors of the simulator, beside a binary that is damaged or a program that cannot run.

NnhalError
├── ProgramError
│   └── StaleBytesError
└── SimulatorError
    └── SimulatorInputError
"""

from __future__ import annotations

from nnhal.errors import NnhalError
from nnhal_mlip.program.errors import ProgramError


class StaleBytesError(ProgramError):
    """A program reads bytes that do not hold what it expects: overwritten, or never written."""


class SimulatorError(NnhalError):
    """A run cannot go on. The message says what was got, what was expected and where."""


class SimulatorInputError(SimulatorError):
    """The inputs of a run are not what the program takes."""
