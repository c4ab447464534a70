"""The digits come in by NeuralNetworks.h, TensorFlow Lite and ONNX Runtime, and what is seen of them is the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.frontends.ort_ep.conftest import library
from tests.native.doors import IMAGES, through_the_doors

__all__ = ["library"]
pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(600)]  # the first one builds the libraries


def test_what_is_seen_of_the_digits_is_the_same_by_each_door(libraries: Path, library: str) -> None:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        found = through_the_doors(Path(folder), libraries, Path(library))
    assert list(found) == ["NeuralNetworks.h", "TensorFlow Lite", "ONNX Runtime"]
    assert len(set(found.values())) == 1, "\n".join(f"{door}\n{seen}" for door, seen in found.items())
    seen = found["ONNX Runtime"]
    assert len(seen.digits) == IMAGES
    assert [(operation, device) for operation, device, _ in seen.operations] == [
        ("CONV_2D", "mlip"),
        ("CONV_2D", "mlip"),
        ("MAX_POOL_2D", "mlip"),
        ("CONV_2D", "mlip"),
        ("RESHAPE", "mlip"),
        ("FULLY_CONNECTED", "mlip"),
        ("SOFTMAX", "cpu_ref"),
    ]
    assert [(source, destination) for source, destination, *_ in seen.ledger] == [
        ("client", "mlip"),
        ("mlip", "cpu_ref"),
        ("cpu_ref", "client"),
    ]
