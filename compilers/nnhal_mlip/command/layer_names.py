"""Words for layers: the name of the kind of a layer as in the nodes file, and the user's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nnhal_mlip.flow.files import layers
from nnhal_mlip.flow.flow_partition import FlowKernel
from nnhal_mlip.flow.graph.operators import TABLES, Operator

_NAMES: Mapping[str, str] = {
    Operator.ADD: layers.SUM,
    Operator.AVG_POOL2D: layers.AVERAGE_POOL,
    Operator.BATCH_FLATTEN: layers.BATCH_FLATTEN,
    Operator.BATCH_MATMUL: layers.MATMUL,
    Operator.CLIP: layers.ACTIVATION,
    Operator.CONCATENATE: layers.CONCAT,
    Operator.CONV2D: layers.CONV2D,
    Operator.CONV2D_TRANSPOSE: layers.CONV2D_TRANSPOSE,
    Operator.DENSE: layers.FULLY_CONNECTED,
    Operator.GLOBAL_AVG_POOL2D: layers.GLOBAL_AVERAGE_POOL,
    Operator.GLOBAL_MAX_POOL2D: layers.GLOBAL_MAX_POOL,
    Operator.LAYER_NORM: layers.LAYER_NORM,
    Operator.LAYOUT_TRANSFORM: layers.LAYOUT_TRANSFORM,
    Operator.MAX_POOL2D: layers.MAX_POOL,
    Operator.MEAN: layers.MEAN,
    Operator.MULTIPLY: layers.PRODUCT,
    Operator.PAD: layers.PAD,
    Operator.RELU: layers.ACTIVATION,
    Operator.RESHAPE: layers.RESHAPE,
    Operator.SOFTMAX: layers.SOFTMAX,
    Operator.SQUEEZE: layers.SQUEEZE,
    Operator.STRIDED_SLICE: layers.SLICE,
    Operator.TRANSPOSE: layers.TRANSPOSE,
    Operator.UPSAMPLING: layers.UPSAMPLING,
    **dict.fromkeys(TABLES, layers.ACTIVATION),
}


def layer_kind(kernel: FlowKernel) -> str:
    """Return the word of the nodes file for a layer: ``Conv2D``."""
    return _NAMES[kernel.operator]


def layer_title(user_names: Sequence[str], otherwise: str) -> str:
    """Return the user's names of a layer; ``otherwise`` if a pass has added it."""
    return " + ".join(user_names) or otherwise


def counted(words: Iterable[str]) -> str:
    """Return the words with the number of their occurrences, unless that is 1: ``20 Conv2D, Maxpool2D``."""
    counts = Counter(words)
    return ", ".join(word if count == 1 else f"{count} {word}" for word, count in counts.items())


def some(count: int, word: str, several: str = "") -> str:
    """Return a number with its word: ``1 layer``, ``2 binaries``. ``several`` is the plural unless an s makes it."""
    return f"{count} {word if count == 1 else several or word + 's'}"
