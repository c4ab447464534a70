"""Running a model on views of the memory that the devices use.

Start `nnhal up --directory /tmp/nnhal` first, then: python examples/zero_copy.py MODEL.onnx /tmp/nnhal/framework
"""

from __future__ import annotations

import sys
from pathlib import Path

import nnhal_client


def main() -> None:
    """Run a model five times on inputs written in place."""
    path, directory = sys.argv[1:]
    with nnhal_client.connect(Path(directory)) as framework:
        model = framework.load(path)
        for placement in model.placements:
            print(placement.operation, "on", placement.device, "for", ", ".join(placement.nodes))
        binding = model.bind(measure_timing=True)
        for number in range(5):
            for view in binding.inputs.values():
                view[...] = number  # a view of the device's own input
            report = binding.run()
            copied = sum(step.copied_bytes for step in report.steps)
            sums = {name: float(view.sum()) for name, view in binding.outputs.items()}
            print(f"run {number}: {report.duration_ns / 1e3:.0f} µs, {copied} bytes copied, sums {sums}")


if __name__ == "__main__":
    main()
