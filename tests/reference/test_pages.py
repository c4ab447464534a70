"""Pages of docs/reference are current."""

from __future__ import annotations

import re

import onnx
import onnxruntime
import pytest

from tests.prose.links import LINK
from tests.reference.pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), f"docs/reference/{name} is stale: run 'make reference'"


def test_the_coverage_of_onnx_is_that_of_the_packages_here() -> None:
    found = re.search(r"with onnx (\S+) and ONNX Runtime (\S+)\.\s", (FOLDER / "onnx_coverage.md").read_text())
    assert found is not None
    assert found.groups() == (onnx.__version__, onnxruntime.__version__), "stale: run 'make reference'"


def test_no_page_is_made_by_hand_but_the_protocols_and_the_repository() -> None:
    by_hand = {"protocol.md", "v2.md", "repository.md"}
    assert {path.name for path in FOLDER.glob("*.md")} == {*PAGES, "onnx_coverage.md", *by_hand}


def test_each_page_is_linked_from_the_first() -> None:
    linked = {target for target, _ in LINK.findall((FOLDER / "README.md").read_text())}
    assert linked == {path.name for path in FOLDER.glob("*.md")} - {"README.md"}
