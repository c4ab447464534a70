"""The type of the entries of the table of operators."""

from __future__ import annotations

from collections.abc import Callable

from nnhal_frontends.tflite.builder import OperatorBuilder

Converter = Callable[[OperatorBuilder], None]
"""Adds the operations of one operator, or raises UnsupportedNode."""
