"""Reads four pictures of digits: python examples/workbench/read_digits.py FRAMEWORK."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import nnhal_client

DATA = Path("tools/nnhal_tools/demo/data")


def main() -> None:
    """Print the digits that a framework finds."""
    images = np.load(DATA / "digits_heldout.npz")["images"][:4]
    with nnhal_client.connect(Path(sys.argv[1])) as framework:
        model = framework.load(DATA / "digits.onnx")
        (image,), (scores,) = model.inputs, model.outputs
        found = [model.run({image.name: each[np.newaxis]})[scores.name].argmax() for each in images]
    print("read", *found)


if __name__ == "__main__":
    main()
