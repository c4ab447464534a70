"""``python -m tests.pictures``: the drawings of docs/, cut out of the pages that commands write; light and dark in one.

It needs NNHAL_MODELS, the folder with MobileNetV1. docs/pictures/dashboard is made by ``python -m tests.screenshots``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path
from typing import NamedTuple

from nnhal_pages.document import palette
from nnhal_pages.svg import Drawing, drawing_style
from tests.support.command import command

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs/pictures"
_DIGITS = str(ROOT / "tools/nnhal_tools/demo/data/digits.onnx")
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_DRAWING = re.compile(
    r"<svg class='drawing' role='\w+' aria-label='([^']*)' viewBox='0 0 (\d+) (\d+)'[^>]*>(.*?)</svg>", re.DOTALL
)


class Picture(NamedTuple):
    """A drawing of a page, by the first words of its title."""

    name: str
    title: str


def sources(models: Path) -> dict[tuple[str, ...], tuple[Picture, ...]]:
    """Return the words of the commands that write pages, with the pictures that are cut out of each."""
    network = str(models / "mobilenet_v1_1.0_224.tflite")
    return {
        ("cascade", network, "--sram", "240KiB"): (
            Picture("cascade_0_7", "The cascade of parts 0-7"),
            Picture("memory", "The sram of"),
        ),
        ("cascade", network, "--frontier", "--recompute"): (Picture("frontier", "The frontier of"),),
        ("mlip", "perf", _DIGITS): (Picture("tiles", "The memory of tile 0 "),),
        ("diff", _DIGITS, "--dut", "Npu", "--report-only"): (Picture("diff", "Graph of"),),
    }


def documents(page: str) -> dict[str, str]:
    """Return the drawings of a page as files of their own, by title, with the rules that its style adds."""
    (style,) = _STYLE.findall(page)
    own = style.replace(palette(), "").replace(drawing_style(), "")
    found = {
        unescape(title): Drawing(int(width), int(height), unescape(title), content).document()
        for title, width, height, content in _DRAWING.findall(page)
    }
    return {title: document.replace("</style>", f"{own}</style>", 1) for title, document in found.items()}


def main() -> int:
    models = os.environ.get("NNHAL_MODELS")
    if models is None:
        print("NNHAL_MODELS names no folder with mobilenet_v1_1.0_224.tflite", file=sys.stderr)
        return 1
    environment = {**os.environ, "NNHAL_DEVICE_BACKEND_PATHS": str(ROOT / "examples/workbench")}
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        for words, pictures in sources(Path(models)).items():
            made = command((*words, "--html", str(page)))
            subprocess.run(made, env=environment, stdout=subprocess.DEVNULL, check=True)
            found = documents(page.read_text())
            for picture in pictures:
                document = next(text for title, text in found.items() if title.startswith(picture.title))
                (PICTURES / f"{picture.name}.svg").write_text(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
