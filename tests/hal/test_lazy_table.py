"""Tables whose values are imported when they are first used."""

from __future__ import annotations

import sys

import pytest

from nnhal.lazy_table import LazyTable
from nnhal.operations import DEFINITIONS
from nnhal.types import OperationType


def test_only_a_value_that_is_used_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "xml.sax.saxutils", raising=False)
    table: LazyTable[str, object] = LazyTable("xml.sax", {"escape": "saxutils:escape", "other": "no_such_module:other"})
    assert (list(table), len(table), "escape" in table, "neither" in table) == (["escape", "other"], 2, True, False)
    assert "xml.sax.saxutils" not in sys.modules
    escape = table["escape"]
    assert escape is sys.modules["xml.sax.saxutils"].escape and table["escape"] is escape
    assert table.get("neither") is None
    with pytest.raises(ModuleNotFoundError, match=r"xml\.sax\.no_such_module"):
        table["other"]


def test_every_operation_is_defined_under_its_own_type() -> None:
    assert all(DEFINITIONS[code].type is code for code in DEFINITIONS)
    assert OperationType.IF not in DEFINITIONS
