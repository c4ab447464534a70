"""Classify images of digits by LiteRT: MODEL IMAGES LIBRARY.

It prints each digit, and waits for the end of its input.
"""

from __future__ import annotations

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate


def main(model: str, file: str, library: str) -> None:
    interpreter = Interpreter(
        model, experimental_delegates=[load_delegate(library, {"relaxed": "1", "partitioner": "nnapi"})]
    )
    interpreter.allocate_tensors()
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    images = np.fromfile(file, np.float32).reshape(-1, 1, 8, 8, 1)
    for image in images:
        interpreter.set_tensor(given["index"], image)
        interpreter.invoke()
        print(interpreter.get_tensor(result["index"]).argmax())
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
