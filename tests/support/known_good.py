"""Cases of another cascading planner, read from NNHAL_CASCADE: what it computed for given stripes and operators."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.published_cascader.stripes import StripeConfig

_FOLDER = os.environ.get("NNHAL_CASCADE", "")
needs_known_good = pytest.mark.skipif(not _FOLDER, reason="NNHAL_CASCADE names no folder with known_good.json")


def known_good(section: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((Path(_FOLDER) / "known_good.json").read_text())[section]
    assert cases, f"known_good.json has no cases in {section}"
    return cases


def config_of(given: dict[str, list[float]]) -> StripeConfig:
    return StripeConfig(**{name: tuple(values) for name, values in given.items()})  # type: ignore[arg-type]
