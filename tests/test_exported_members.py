from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (
    "hal",
    "hosting",
    "frontends",
    "frontends/ort_ep",
    "native",
    "devices",
    "service",
    "client",
    "pages",
    "dashboard",
    "tools",
    "scaleout",
)


def packages() -> list[str]:
    return [
        ".".join(path.parent.relative_to(ROOT / source).parts)
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("__init__.py"))
        if re.search(r"^__all__\b", path.read_text(), re.MULTILINE)
    ]


def order(name: str) -> tuple[int, list[tuple[bool, int, str]]]:
    """Return a sort key: constants, then classes, then the rest; numbers in names are compared by value."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, [
        (part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name) if part
    ]


@pytest.mark.parametrize("package", packages())
def test_exported_members_exist_and_are_sorted(package: str) -> None:
    module = importlib.import_module(package)
    names = list(module.__all__)
    assert names == sorted(set(names), key=order)
    assert [name for name in names if not hasattr(module, name)] == []
