"""Content from which model files are imported."""

from __future__ import annotations

import mmap
from typing import TypeAlias

ModelContent: TypeAlias = bytes | mmap.mmap
"""The bytes of a model file: a copy, or the file in place if it can no longer change."""
