"""tflite_coverage.md: what the front end makes of the operators of a TFLite file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from nnhal_frontends.tflite.graph import CUSTOM
from nnhal_frontends.tflite.ops import CONVERTERS
from tests.frontends.tflite.test_every_operator import BY_LITERT, LACKING

_PAGE = Path(__file__).with_name("tflite_coverage.template")


def tflite_page() -> str:
    """Return the page."""
    converted = {name for name in CONVERTERS if not name.startswith(CUSTOM)}
    return _PAGE.read_text().format(
        converted=_listed(converted), by_litert=_listed(BY_LITERT), lacking=_listed(LACKING)
    )


def _listed(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)), 120, break_on_hyphens=False)
