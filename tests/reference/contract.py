"""contract.md: the rows of the HAL's contract, and the tests that name each."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from nnhal_conformance import RULES
from tests.contract.table import Family, Row, read_table
from tests.reference.markdown import table
from tests.support.model_mutations import FAMILIES

ROOT = Path(__file__).parents[2]
_COMPUTED: Mapping[str, Callable[[], Iterable[str]]] = {
    "tests/process/test_rules.py": lambda: {row for rule in RULES.values() for row in rule.rows},
    "tests/process/test_model_mutations.py": lambda: FAMILIES,
    "tests/conformance/test_mutations.py": lambda: FAMILIES,
}
"""Tests whose marks are computed, and the rows that they name."""
_PAGE = """# The contract

The contract of nnhal as a HAL, row by row. A row is one behaviour: an action and its required result. `make contract`
collects the tests and says which test shows which row; `make test` runs them.

    make contract                               # every row
    python -m tests.contract DV PM              # only these families
    python -m tests.contract --missing          # only rows that no test shows
    python -m tests.contract --json > map.json  # for other programs

| exit status | meaning |
|---|---|
| 0 | a test shows every row that applies |
| 1 | no test shows some row |
| 2 | a test names a row that does not exist or does not apply, a file of rows is wrong, or tests cannot be collected |

A test that is always skipped or expected to fail shows nothing. A test that is skipped only if something is missing,
such as conformance vectors, counts.

## Name a row

A test names every row that it shows. Name a row only if the test would fail if nnhal violated it.

```python
@pytest.mark.contract("BU-04", "BU-05")
def test_as_many_memory_tokens_as_pools() -> None: ...
```

`pytestmark = pytest.mark.contract(…)` names rows for a module. `pytest.param(…, marks=pytest.mark.contract(…))` names
rows for one parameter. Each family of rows has a file with a `title`, its `rows`, and the reasons of `not_applicable`
rows. Ids are numbered without gaps. nnhal emulates the AIDL interface at feature level 8; a row about an earlier
interface does not apply.

## Valid models

The host checks models before execution, for every device: dimensions of operands and of values between operations,
parameters and indexes that are constants, and subgraphs of IF and WHILE. A contradiction is
INVALID_ARGUMENT, for `getSupportedOperations` and for preparation. A contradiction that only a request shows is
GENERAL_FAILURE when the request is executed, since request and model were valid. Operands of a RUN of an extension are
the device's own matter: it declines a RUN whose operands contradict its message.

## The rows

{count} rows in {families} families.

{rows}
"""


def contract_page() -> str:
    """Return the page. Raises KeyError if a mark of a test is computed and ``_COMPUTED`` does not say from what."""
    families = read_table()
    sections = [_section(family) for family in families]
    count = sum(len(family.rows) for family in families)
    return _PAGE.format(count=count, families=len(families), rows="\n\n".join(sections))


def _section(family: Family) -> str:
    rows = [(row.id, row.behaviour, _shown(row)) for row in family.rows]
    return f"### {family.code}: {family.title}\n\n{table(('row', 'behaviour', 'tests'), rows)}"


def _shown(row: Row) -> str:
    if row.not_applicable is not None:
        return f"Does not apply. {row.not_applicable}"
    return ", ".join(f"`{path.removeprefix('tests/')}`" for path in modules_of(row.id))


def modules_of(row: str) -> list[str]:
    """Return the paths of the test modules that name a row."""
    return [path for path, rows in _named_rows().items() if row in rows]


@cache
def _named_rows() -> dict[str, set[str]]:
    """Return the rows that each test module names."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "mark.contract(" in text and path.name != "test_contract_map.py":
            name = str(path.relative_to(ROOT))
            found[name] = set(_rows(name, ast.parse(text)))
    return found


def _rows(name: str, module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "contract":
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)
                else:
                    yield from _COMPUTED[name]()
