"""Classify images of digits by ONNX Runtime: MODEL IMAGES.

It prints each digit, and waits for the end of its input.
"""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime

import nnhal_ort


def main(model: str, file: str) -> None:
    nnhal_ort.register()
    session = onnxruntime.InferenceSession(
        model, providers=[(nnhal_ort.get_ep_name(), {"relaxed": "1", "partitioner": "nnapi"})]
    )
    images = np.fromfile(file, np.float32).reshape(-1, 1, 1, 8, 8)
    for image in images:
        print(np.argmax(np.asarray(session.run(None, {"image": image})[0])))
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
