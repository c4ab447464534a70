"""The network of examples/mobilenet, which the commands of the documentation use."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.mobilenet import MobileNet, image

_EXAMPLES = Path(__file__).parents[2] / "examples/mobilenet"


def test_the_files_of_the_example_are_those_that_this_module_writes() -> None:
    assert (_EXAMPLES / "model.tflite").read_bytes() == MobileNet().content
    assert (_EXAMPLES / "body.tflite").read_bytes() == MobileNet(body_only=True).content
    np.testing.assert_array_equal(np.load(_EXAMPLES / "image.npy"), image())
