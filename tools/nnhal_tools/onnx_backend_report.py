"""``python -m nnhal_tools.onnx_backend_report [FILE.md]``: which of ONNX's own backend tests nnhal passes, and how.

A test is passed with operations of the NN HAL only, or with operations of the extension nnhal.onnx too. The report goes
to a file or to standard output.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from nnhal.errors import NnhalError
from nnhal.extensions.onnx import NAME
from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal_client.model import Model
from nnhal_tools.onnx_backend import NnhalBackend

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
"""Kinds of tests whose models and data are in the onnx package. 'Real' models have no weights: see light_tests."""
HAL, MIXED, EXTENSION, FAILED = "HAL", "HAL and extension", "extension", "failed"
_READERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
    "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
}
RANDOM = "random numbers"
KNOWN_FAILURES = {
    "attention_4d_causal_fp16(_cpu)?$": "ONNX Runtime rounds differently",
    "attention_4d_diff_heads_mask4d_padded_kv(_cpu)?$": "ONNX Runtime refuses the shapes",
    "attention_4d_with_past_and_present_qk_matmul_bias_[34]d_mask_causal(_cpu)?$": "ONNX Runtime masks differently",
    "bernoulli": RANDOM,
    "convinteger_with_padding": "ONNX Runtime refuses the zero point's shape",
    "_dft|_stft": "ONNX Runtime is less exact than the tolerance",
    "gradient_of": "no device has the operator Gradient",
    "loop16_seq_none": "the test cannot compare arrays of rank 0 in sequences",
    "maxunpool_export_with_output_shape": "ONNX Runtime computes another result",
    "PReLU_.d_multiparam": "ONNX Runtime has no PRelu of opset 6, and it cannot be converted to opset 7",
    "reduce_max_empty_set_bool": "ONNX Runtime refuses the model",
    "resize_downsample_scales_(linear|cubic)_align_corners": "ONNX Runtime computes another result",
    "training_dropout(_default)?(_mask)?(_cpu)?$": RANDOM,
}
"""Patterns of test names, and why the tests fail."""

_LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@dataclass(frozen=True, slots=True)
class BackendOutcome:
    """Outcome of one test."""

    kind: str
    """The kind of the test."""
    name: str
    """Name of the test."""
    how: str
    """HAL, MIXED, EXTENSION or FAILED."""
    devices: tuple[str, ...] = ()
    """Devices that ran its operations."""
    reason: str = ""
    """Why it failed."""


def package_cases(kind: str) -> Iterator[tuple[TestCase, onnx.ModelProto, list[tuple[Any, Any]]]]:
    """All tests of a kind, each with its model, and with the values that go in and are to come out."""
    for case in load_model_tests(kind=kind):
        directory = Path(case.model_dir or "")
        model = case.model or onnx.load(directory / "model.onnx")
        sets = case.data_sets if case.data_sets is not None else list(_stored_sets(model, directory))
        yield case, model, [([*map(_plain, given)], [*map(_plain, wanted)]) for given, wanted in sets]


def package_tests(kind: str) -> Iterator[BackendOutcome]:
    for case, model, sets in package_cases(kind):
        yield _outcome(kind, case.name, model, sets, case.rtol, case.atol)


def light_tests(names: str = "*") -> Iterator[BackendOutcome]:
    """The well-known networks of the onnx package, whose weights are made when they are loaded."""
    for path in sorted(_LIGHT.glob(f"{names}.onnx")):
        model = onnx.load(path)
        expected = onnx.load_tensor(str(path.with_name(f"{path.stem}_output_0.pb")))
        inputs = [Runner.generate_dummy_data(value, seed=0) for value in _inputs(model)]
        yield _outcome("light", path.stem, model, [(inputs, [numpy_helper.to_array(expected)])], 1e-3, 1e-6)


def _outcome(
    kind: str, name: str, model: onnx.ModelProto, sets: Sequence[tuple[Any, Any]], rtol: float, atol: float
) -> BackendOutcome:
    devices: tuple[str, ...] = ()
    try:
        loaded = NnhalBackend.prepare(model)
        how, devices = _how(loaded.model)
        for given, wanted in sets:
            Runner.assert_similar_outputs(wanted, loaded.run(given), rtol, atol)
    except (AssertionError, NnhalError, TypeError, ValueError) as error:
        return BackendOutcome(kind, name, FAILED, devices, _brief(error))
    return BackendOutcome(kind, name, how, devices)


def _how(model: Model) -> tuple[str, tuple[str, ...]]:
    extended = {placement.operation == NAME for placement in model.placements}
    devices = tuple(sorted({placement.device for placement in model.placements}))
    return (MIXED if len(extended) > 1 else EXTENSION if True in extended else HAL), devices


def _brief(error: Exception) -> str:
    text = " ".join(str(error).split())
    refusal = re.search(r"no device takes [^:]*: (.*)", text)
    return (refusal[1] if refusal else text)[:300]


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    held = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in held]


def _stored_sets(model: onnx.ModelProto, directory: Path) -> Iterator[tuple[list[Any], list[Any]]]:
    for folder in sorted(directory.glob("test_data_set_*")):
        yield _stored(folder, "input", model.graph.input), _stored(folder, "output", model.graph.output)


def _stored(folder: Path, what: str, declared: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    values = []
    for number in range(len(list(folder.glob(f"{what}_*.pb")))):
        message, read = _READERS[declared[number].type.WhichOneof("value") or ""]
        content = read_given_file(folder / f"{what}_{number}.pb", MOST_MODEL_BYTES, "a tensor")
        values.append(read(message.FromString(content)))
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def report(outcomes: Sequence[BackendOutcome]) -> str:
    """A page about the outcomes."""
    counts = Counter((outcome.kind, outcome.how) for outcome in outcomes)
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    rows = [_row(kind, [counts[kind, how] for how in (HAL, MIXED, EXTENSION, FAILED)]) for kind in kinds]
    total = [sum(counts[kind, how] for kind in kinds) for how in (HAL, MIXED, EXTENSION, FAILED)]
    by_device = Counter(outcome.devices for outcome in outcomes if outcome.how != FAILED)
    failures: defaultdict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.how == FAILED:
            failures[_why(outcome)].append(outcome.name)
    lines = [
        "# ONNX coverage",
        "",
        "The `onnx` package's own backend tests, run on cpu_acc and cpu_ref through a framework process. Generated by",
        f"`python -m nnhal_tools.onnx_backend_report FILE` with onnx {onnx.__version__} and ONNX Runtime "
        f"{onnxruntime.__version__}.",
        "",
        "| tests | passed | HAL operations only | HAL and extension | extension only | failed |",
        "|---|---|---|---|---|---|",
        *rows,
        _row("all", total),
        "",
        "| devices of passed tests | tests |",
        "|---|---|",
        *(f"| {' and '.join(devices)} | {count} |" for devices, count in by_device.most_common()),
        "",
        "cpu_acc runs operations of the extension with ONNX Runtime. cpu_ref runs the others with ONNX's own reference",
        "evaluator. Much of the tests' expected data comes from that evaluator too. Such tests show that models and",
        "values pass through the framework unharmed. They do not check the arithmetic independently.",
        "",
        "## Failed tests",
        "",
        "ONNX Runtime's CPU provider fails each of them too. nnhal's provider passes whatever ONNX Runtime passes.",
        "",
        *(f"- {why}: {', '.join(sorted(names))}" for why, names in sorted(failures.items())),
    ]
    return "\n".join(lines) + "\n"


def _why(outcome: BackendOutcome) -> str:
    known = (why for pattern, why in KNOWN_FAILURES.items() if re.search(pattern, outcome.name))
    return next(known, outcome.reason)


def _row(name: str, counts: Sequence[int]) -> str:
    hal, mixed, extension, failed = counts
    passed = hal + mixed + extension
    return f"| {name} | {passed} of {passed + failed} | {hal} | {mixed} | {extension} | {failed} |"


def main() -> int:
    """Run everything. The exit status is 0 whatever the outcomes are."""
    warnings.simplefilter("ignore")  # the package's test data overflow on purpose
    outcomes = [outcome for kind in KINDS for outcome in package_tests(kind)]
    outcomes += light_tests()
    text = report(outcomes)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
