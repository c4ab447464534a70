from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnhal_mlip.command.calibration import calibrate, graph_inputs
from nnhal_mlip.command.model_file import read_flow_model
from nnhal_mlip.command.samples import read_samples
from nnhal_mlip.flow.graph.reference import evaluate
from tests.support.mlip_flows import shared


def test_ranges_are_those_of_all_samples(digits: Path, images: Path) -> None:
    model = read_flow_model(digits)
    found, samples = shared(model), read_samples([images], model.inputs)
    ranges = calibrate(model, found, samples)
    values = [evaluate(found.graph, graph_inputs(model, sample)) for sample in samples]
    assert set(ranges) == {"image", *(kernel.output for kernel in found.subgraphs[0].kernels)}
    for name, (low, high) in ranges.items():
        assert low == min(float(each[name].min()) for each in values)
        assert high == max(float(each[name].max()) for each in values)


def test_numbers_that_are_not_finite_are_refused(digits: Path) -> None:
    model = read_flow_model(digits)
    image = np.full((1, 1, 28, 28), np.inf, np.float32)
    with pytest.raises(ValueError, match="sample 0: value 'image' is from inf to inf, expected finite numbers"):
        calibrate(model, shared(model), [{"image": image}])
