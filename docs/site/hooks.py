"""Hooks of mkdocs for the pages: README.md, what it leads to over links, and the order that it has them in.

Pages keep their places in the repository, so that a link leads to the same on the site and where the repository is
shown. What is no page, a source or a folder, gets one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
_CODE = re.compile(r"(^```.*?^```|^    .*?$|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r"^\*\*([^*\n]+)\*\*\n(.*?)(?=^\*\*|^#|^\[)", re.DOTALL | re.MULTILINE)
_PICTURES = (".png", ".svg")
_HOSTED = (*_PICTURES, ".js")
_LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the order from the lists of README.md."""
    sections: list[Any] = [{"nnhal": "README.md"}]
    for title, text in _SECTION.findall((ROOT / "README.md").read_text()):
        pages = dict.fromkeys(target for target in _LINK.findall(text) if target.endswith(".md"))
        sections.append({title: list(pages)})
    config.nav = [*sections, {"Work on it": ["CONTRIBUTING.md"]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put what README.md leads to in the place of what lies in docs/, and the files of the theme beside it."""
    hosted = [path for suffix in _HOSTED for path in (ROOT / "docs").rglob(f"*{suffix}")]
    found = {path: _file(path, config) for path in hosted}
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = _file(path, config)
        if path.suffix == ".md":
            text = _CODE.sub("", path.read_text())
            waiting += [_page(path.parent / target) for target in _LINK.findall(text)]
    return Files([*found.values(), *(file for file in files if file.src_dir != config.docs_dir)])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Have links to sources and folders lead to their pages."""
    folder = (ROOT / page.file.src_uri).parent
    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _led(folder, link[1]), part) for part in parts[::2]]
    return "".join(parts)


def _led(folder: Path, target: str) -> str:
    """Return the link, or the one to the page that it leads to."""
    path = _page(folder / target)
    if path.suffix in (".md", *_PICTURES):
        return target if path == (folder / target).resolve() else f"{target}/README.md"
    return f"{target}/README.md" if path.is_dir() else f"{target}.md"


def _page(path: Path) -> Path:
    """The file that a link leads to; the README.md of a folder that has one."""
    path = path.resolve()
    readme = path / "README.md"
    return readme if readme.is_file() else path


def _file(path: Path, config: MkDocsConfig) -> File:
    place = path.relative_to(ROOT).as_posix()
    if path.suffix in (".md", *_HOSTED):
        return File(place, str(ROOT), config.site_dir, config.use_directory_urls)
    if path.is_dir():
        names = sorted(f"{found.name}/" if found.is_dir() else found.name for found in path.iterdir())
        listed = "\n".join(f"    {name}" for name in names if not name.startswith((".", "__")))
        return File.generated(config, f"{place}/README.md", content=f"# {place}\n\nIn the repository:\n\n{listed}\n")
    fence = f"```{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n```\n"
    return File.generated(config, f"{place}.md", content=f"# {place}\n\n{fence}")
