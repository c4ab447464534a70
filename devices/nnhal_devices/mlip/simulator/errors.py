"""What can go wrong when the simulator runs a program, beside what is wrong with the program or its binary.

NnhalError
├── ProgramError
│   └── StaleBytesError
└── SimulatorInputError
"""

from __future__ import annotations

from nnhal.errors import NnhalError
from nnhal_devices.mlip.program.errors import ProgramError


class StaleBytesError(ProgramError):
    """A program reads bytes that do not hold what it expects: overwritten, or never written."""


class SimulatorInputError(NnhalError):
    """The inputs of a run are not what the program takes. The message says what was got and expected."""
