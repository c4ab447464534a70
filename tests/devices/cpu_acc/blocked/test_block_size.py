from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_devices.cpu_acc.blocked.block_size import block_channels
from tests.devices.image_networks import Network, optimized, plain


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_depthwise_convolution_of_whole_blocks_is_blocked(blocks: int, tmp_path: Path) -> None:
    block = block_channels()
    if block is None:
        pytest.skip("ONNX Runtime has no blocked layout for this processor")
    for channels, is_blocked in ((blocks * block, True), (blocks * block + 1, False)):
        network = Network()
        image = network.depthwise(network.image(8, channels))
        nodes = optimized(plain(network.recipe.build(image)), tmp_path)
        assert ("Conv*" in nodes) is is_blocked
