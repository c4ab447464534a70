"""Element types that numpy does not have: bfloat16 and others of 16 bits or less, from the package ml_dtypes.

The package is optional: a client whose models have none of these types does without.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

from nnhal.errors import NnhalError


class MissingTypeError(NnhalError):
    """An element type that needs the package ml_dtypes, which is not installed."""


def find(name: str) -> np.dtype[np.generic] | None:
    """An element type by its name in ml_dtypes; None if the package is missing."""
    try:
        element: np.dtype[np.generic] = np.dtype(getattr(import_module("ml_dtypes"), name))
    except ModuleNotFoundError:
        return None
    return element


def require(name: str) -> np.dtype[np.generic]:
    """An element type by its name in ml_dtypes. Raises MissingTypeError if the package is missing."""
    found = find(name)
    if found is None:
        raise MissingTypeError(f"{name} needs the package ml_dtypes: pip install 'nnhal[bfloat16]'")
    return found
