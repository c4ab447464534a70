"""The pages of the documentation: every link leads to a file, and to a heading that is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.prose.budgets import BUDGETS
from tests.prose.links import LINK, broken_links

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/reference").glob("*.md"),
        *ROOT.glob("*/*/README.md"),
        *ROOT.glob("*/*/*/README.md"),
    )
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)


# Links of the changelog are those of its versions.
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"`((?:tests|examples|deploy|benchmarks|docs)/[\w/.-]*\.\w+)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_samples_in_python_import_what_is_there(page: Path) -> None:
    for sample in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        imports = [node for node in ast.parse(sample).body if isinstance(node, (ast.Import, ast.ImportFrom))]
        exec(compile(ast.Module(list(imports), []), str(page), "exec"), {})


def test_each_page_is_linked_from_the_first() -> None:
    linked = {target for target, _ in LINK.findall((ROOT / "README.md").read_text())}
    of_docs = {page.name for page in PAGES if page.parent.name == "docs"} - {"README.md"}
    assert [name for name in sorted(of_docs) if f"docs/{name}" not in linked] == []


def test_the_first_page_of_the_site_leads_to_each_page_for_people() -> None:
    linked = {target for target, _ in LINK.findall((ROOT / "docs/README.md").read_text())}
    budgets = {page.removeprefix("docs/") for page in BUDGETS if page.startswith("docs/")} - {"README.md"}
    assert budgets <= linked
