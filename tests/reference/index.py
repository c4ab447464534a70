"""README.md of docs/reference: its pages."""

from __future__ import annotations

from tests.reference.markdown import table

_PAGES = {
    "commands.md": "commands of `nnhal`, their options, and the extras that install them",
    "limits.md": "settings and limits of every process: default, effect, cost",
    "topology.md": "keys of the file that `nnhal up` reads",
    "metrics.md": "metrics of the framework and of devices for Prometheus",
    "operations.md": "operands of the HAL's operations: order, types, layout",
    "onnx_coverage.md": "ONNX's own tests on nnhal",
    "onnx_operators.md": "ONNX operators on cpu_ref, and at ties, NaN and borders",
    "tflite_coverage.md": "operators of TensorFlow Lite, and what runs them",
    "v2.md": "the Open Inference Protocol V2: calls, parameters, errors, extensions",
    "repository.md": "folders of models: layout, keys of the configuration, loading",
    "protocol.md": "the wire, for clients and devices in any language",
    "messages.md": "services and messages of `proto/nnhal/v1`",
    "faults.md": "faults that can be injected, their keys, and how clients end with each",
    "threats.md": "threats, what holds them, and what does not",
    "contract.md": "rows of the HAL's contract, and their tests",
    "versions.md": "versions of interfaces and files, upgrades, releases",
}
"""Pages in the order of this list, and of the site."""
_PAGE = """# Reference

`make reference` makes these pages from the code, but for v2, protocol and repository. Change the code, not the page.

{pages}
"""


def index_page() -> str:
    """Return the page."""
    rows = [(f"[{name.removesuffix('.md')}]({name})", text) for name, text in _PAGES.items()]
    return _PAGE.format(pages=table(("page", "what it has"), rows))
