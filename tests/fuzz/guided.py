"""The guided engine: atheris, on the targets and mutations of the plain one. ``python -m tests.fuzz.guided TARGET …``

The rest of the command line is libFuzzer's. It needs the extra ``fuzz``, which ``make fuzz HOURS=…`` installs.
"""

from __future__ import annotations

import sys
from random import Random

import atheris

_PACKAGES = ["nnhal", "nnhal_hosting", "nnhal_frontends", "nnhal_devices", "nnhal_service"]

with atheris.instrument_imports(include=_PACKAGES, enable_loader_override=False):
    from tests.fuzz.plain import quiet
    from tests.fuzz.target import MOST_INPUT_BYTES
    from tests.fuzz.targets import target

    found = target(sys.argv[1])


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """The mutation of a target, as libFuzzer asks for it."""
    return found.changed(data, Random(seed))[: min(most, MOST_INPUT_BYTES)]


if __name__ == "__main__":
    quiet()
    for seed in found.corpus():
        found.warm_up(seed)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], found.attempt, custom_mutator=mutated)
    atheris.Fuzz()
