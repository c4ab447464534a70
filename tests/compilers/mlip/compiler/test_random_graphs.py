"""Subgraphs of random graphs, with random options: the right values, or a reason."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from nnhal_mlip.compiler.errors import MisfitOfTilesError
from nnhal_mlip.program.program import OCM_BYTES
from tests.support.mlip_compiling import GraphInFiles
from tests.support.random_flow_graphs import random_flow_graph

SIZES = (OCM_BYTES, 8192, 3072)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_subgraphs_compute_what_the_reference_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    given = GraphInFiles(random_flow_graph(seed, int(random.integers(5, 25))), seed)
    for number in range(len(given.files)):
        for size in SIZES:
            quantize: Literal["fp16", "int8"] = "int8" if random.integers(2) else "fp16"
            tiles, pinned = 1 << int(random.integers(4)), bool(random.integers(2))
            try:
                compiled = given.compile(
                    number, quantize=quantize, num_tiles=tiles, wb_pin_ocm=pinned, page_bytes=1024, ocm_size=size
                )
            except MisfitOfTilesError as error:
                assert error.wanted > size == error.available
                assert size < OCM_BYTES
            else:
                given.check(compiled, quantize, number)
