"""Conformance vectors as cases: JSON lines, one test a line, gzipped or plain.

A test is a model, its input values, and the expected output values. ``data`` of an operand is flat and row-major,
in the operand's own element type; 'nan', 'inf' and '-inf' are strings.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.given_files import open_given_file
from nnhal.types import (
    ChannelQuant,
    DataLocation,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_tools.cases.case import Case, Expectation
from nnhal_tools.distance import tolerance_of

_MOST_LINE_BYTES = 256 << 20
_KEYS = {
    *("name", "spec", "version", "relaxed", "expect_failure", "multinomial_tolerance"),
    *("main", "referenced"),
}


def vectors_in(paths: Sequence[Path], pattern: str = "") -> list[Case]:
    """Read the tests of files, and of the files in folders, whose names match an expression.

    Raises OSError, or ValueError for an invalid line, and if there is no test.
    """
    files = [
        file
        for path in paths
        for file in (sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")]) if path.is_dir() else [path])
    ]
    wanted = re.compile(pattern)
    found = [vector for file in files for vector in read_vectors(file) if wanted.search(vector.name)]
    if not found:
        raise ValueError(f"no test in {', '.join(map(str, paths))} matches {pattern!r}")
    return found


def read_vectors(path: Path) -> Iterator[Case]:
    """Read the tests of a file. Raises OSError, or ValueError with the number of the invalid line."""
    with open_given_file(path, "vectors") as file:
        lines = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        number = 0
        try:
            while line := lines.readline(_MOST_LINE_BYTES):
                number += 1
                if len(line) == _MOST_LINE_BYTES:
                    raise ValueError(f"got a line of {_MOST_LINE_BYTES} bytes or more, expected a shorter one")
                yield parse_vector(json.loads(line))
        except (gzip.BadGzipFile, EOFError, KeyError, RecursionError, TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"{path}:{number}: {type(error).__name__}: {error}") from error


def parse_vector(test: dict[str, Any]) -> Case:
    """One test from its JSON form."""
    if unknown := set(test) - _KEYS:
        raise ValueError(f"got {', '.join(sorted(unknown))}, expected only {', '.join(sorted(_KEYS))}")
    constants = bytearray()
    graphs = [_subgraph(graph, constants) for graph in (test["main"], *test.get("referenced", ()))]
    model = Model(graphs[0], tuple(graphs[1:]), bytes(constants), (), test["relaxed"])
    operands = test["main"]["operands"]
    all_operands = [operand for graph in (test["main"], *test.get("referenced", ())) for operand in graph["operands"]]
    half = test["relaxed"] or any(operand["type"] == "TENSOR_FLOAT16" for operand in all_operands)
    return Case(
        test["name"],
        test["spec"],
        model,
        tuple(_array(operands[i]) if operands[i].get("data") else None for i in test["main"]["inputs"]),
        tuple(_expectation(operands[i], half) for i in test["main"]["outputs"]),
        test["expect_failure"],
        test["multinomial_tolerance"],
    )


def _subgraph(graph: dict[str, Any], constants: bytearray) -> Subgraph:
    return Subgraph(
        tuple(_operand(operand, constants) for operand in graph["operands"]),
        tuple(
            Operation(OperationType[o["type"]], tuple(o["inputs"]), tuple(o["outputs"])) for o in graph["operations"]
        ),
        tuple(graph["inputs"]),
        tuple(graph["outputs"]),
    )


def _operand(operand: dict[str, Any], constants: bytearray) -> Operand:
    lifetime = {"CONSTANT_REFERENCE": "CONSTANT_COPY"}.get(operand["lifetime"], operand["lifetime"])
    location = DataLocation()
    if lifetime == "CONSTANT_COPY":
        raw = _array(operand).tobytes()
        constants.extend(bytes(-len(constants) % 4))
        location = DataLocation(0, len(constants), len(raw))
        constants.extend(raw)
    elif lifetime == "SUBGRAPH":
        location = DataLocation(offset=operand["subgraph"])
    quant = operand.get("channel_quant")
    return Operand(
        OperandType[operand["type"]],
        tuple(operand["dimensions"]),
        operand["scale"],
        operand["zero_point"],
        OperandLifeTime[lifetime],
        location,
        ChannelQuant(tuple(quant["scales"]), quant["channel_dim"]) if quant else None,
    )


def _array(operand: dict[str, Any]) -> Array:
    element = ELEMENT_TYPES[OperandType[operand["type"]]]
    dimensions: Dimensions = tuple(operand["dimensions"])
    data = operand.get("data") or []
    values = np.array([float(v) if isinstance(v, str) else v for v in data])
    return values.astype(element).reshape(dimensions if np.prod(dimensions) == len(data) else -1)


def _expectation(operand: dict[str, Any], half: bool) -> Expectation:
    code = OperandType[operand["type"]]
    absolute, relative = tolerance_of(code, half)
    return Expectation(_array(operand), not operand.get("ignored", False), absolute, relative)
