"""Settings of Sphinx for the site of the pages: make docs.

Pages keep their places in the repository, so that a link leads to the same on the site and where the repository is
shown. A link to a source is a download on the site.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
NAVIGATION = {
    "I have a model": ("quickstart", "partitioning", "client", "doors"),
    "I write a driver": ("write_a_device", "debug_a_driver", "cascading", "mlip"),
    "I run it for others": ("serve", "operate", "deploy", "security"),
    "Understand it": ("architecture", "benchmarks", "reference/README", "../README", "../CONTRIBUTING", "../CHANGELOG"),
}
"""Pages of each door, from the first page."""

project = "nnhal"
html_title = "nnhal"
extensions = ["myst_parser"]
include_patterns = ["docs/*.md", "docs/reference/*.md", "*.md", "*/README.md", "*/*/README.md", "*/*/*/README.md"]
exclude_patterns = ["**/.*", ".*"]
root_doc = "docs/README"
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_copy_source = False
html_show_search_summary = False  # a page that was opened as a file may not fetch another
html_show_sphinx = False
html_show_copyright = False
_FIRST, _REFERENCE = "docs/README", "docs/reference/README"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
_TO_PAGE = re.compile(r"\[([^\]]*)\]\(docs/[^)]*\)")
"""A link of the changelog to a page of its version."""
_CODE = re.compile(r"(^```.*?^```|^    .*?$|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def setup(app: Sphinx) -> None:
    """Add what Sphinx does not do by itself: links to folders, the navigation, pictures in HTML, and the way in."""
    app.connect("source-read", _on_source)
    app.connect("build-finished", _on_end)


def _on_source(_: Sphinx, name: str, source: list[str]) -> None:
    folder = (ROOT / name).parent
    parts = _CODE.split(source[0])
    parts[::2] = [_LINK.sub(lambda link: _of_folder(folder, link[1]), part) for part in parts[::2]]
    text = "".join(parts)
    source[0] = (_TO_PAGE.sub(r"\1", text) if name == "CHANGELOG" else text) + _navigation(name)


def _of_folder(folder: Path, target: str) -> str:
    """Return the link; of a folder the one to its README.md or, without one, to its first file."""
    path = (folder / target).resolve()
    if not path.is_dir():
        return target
    files = sorted(each.name for each in path.iterdir() if each.is_file())
    return f"{target.rstrip('/')}/{'README.md' if 'README.md' in files else files[0]}"


def _navigation(name: str) -> str:
    if name == _FIRST:
        return "".join(_tree(pages, title) for title, pages in NAVIGATION.items())
    if name == _REFERENCE:
        return _tree(tuple(_LINK.findall((ROOT / f"{name}.md").read_text())))
    if name == "CONTRIBUTING":
        readmes = {path.relative_to(ROOT) for depth in range(1, 4) for path in ROOT.glob(f"{'*/' * depth}README.md")}
        return _tree(
            tuple(str(path) for path in sorted(readmes) if path.parts[0] != "docs" and path.parts[0][0] != ".")
        )
    return ""


def _tree(pages: tuple[str, ...], title: str = "") -> str:
    lines = "\n".join(pages)
    caption = f":caption: {title}\n" if title else ""
    return f"\n\n```{{toctree}}\n:hidden:\n{caption}\n{lines}\n```\n"


def _on_end(app: Sphinx, error: Exception | None) -> None:
    """Copy the pictures that pages name in HTML, and make a first page at the top of the site."""
    if error is None:
        out = Path(app.outdir)
        shutil.copytree(ROOT / "docs/pictures", out / "docs/pictures", dirs_exist_ok=True)
        (out / "index.html").write_text(
            '<!doctype html><meta http-equiv="refresh" content="0; url=docs/README.html">\n'
        )
