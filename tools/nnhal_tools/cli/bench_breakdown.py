"""``nnhal bench serve --breakdown``: where the time of a request goes, over each transport."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import onnx

from nnhal_pages.terminal import output_console, show_table
from nnhal_tools.bench.serve import Target, Transport
from nnhal_tools.bench.serve.breakdown import break_down, tables
from nnhal_tools.bench.serve.server import MOST_INSTANCES, SMALL, serving, small_model

Targets = Callable[[Mapping[Transport, str], Mapping[Transport, str]], Iterable[Target]]
"""Makes the targets from the address of each transport, and the name of the model there."""


def show_breakdowns(
    file: Path | None, targets: Targets, levels: Sequence[int], seconds: float, as_json: bool = False
) -> None:
    """Serve a model, or a small one, and print the breakdown of each target at each concurrency.

    Raises ValueError if the file is no ONNX model, BenchError or OSError.
    """
    console = output_console()
    found = []
    name = file.stem if file is not None else SMALL
    model = _model(file) if file is not None else small_model()
    with serving({name: model}, min(levels[-1], MOST_INSTANCES)) as server:
        for target in targets(server.urls, dict.fromkeys(Transport, name)):
            for level in levels:
                found.append(break_down(target, level, server, seconds))
                if not as_json:
                    for table in tables(found[-1]):
                        show_table(table, console)
                        console.print()
    if as_json:
        print(json.dumps({"version": 1, "breakdowns": [breakdown.as_dict() for breakdown in found]}))


def _model(file: Path) -> onnx.ModelProto:
    try:
        return onnx.load(file)
    except OSError:
        raise
    except Exception as error:  # protobuf's own exceptions have no common base
        raise ValueError(f"-m {file}: expected an ONNX model: {error}") from error
