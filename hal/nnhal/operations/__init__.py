"""The operations of the NN HAL: a definition of each, without arithmetic.

A definition says all that the HAL knows of an operation. Its module is that of its family; the kernel is in the module
of that name in ``nnhal.kernels``. IF and WHILE are part of model validation, since they concern subgraphs.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.lazy_table import LazyTable
from nnhal.operations.context import OperationContext, Signature, UnknownYet, channel_quant, type_name
from nnhal.operations.definition import OperationDefinition
from nnhal.types import OperationType

__all__ = [
    "DEFINITIONS",
    "MODULES",
    "OperationContext",
    "OperationDefinition",
    "Signature",
    "UnknownYet",
    "channel_quant",
    "type_name",
]

_FAMILIES = {
    "activation": "ELU LOGISTIC LOG_SOFTMAX RELU RELU1 RELU6 SOFTMAX TANH",
    "boxes": "AXIS_ALIGNED_BBOX_TRANSFORM BOX_WITH_NMS_LIMIT DETECTION_POSTPROCESSING GENERATE_PROPOSALS",
    "conversion": "CAST DEQUANTIZE QUANTIZE",
    "convolution": "CONV_2D DEPTHWISE_CONV_2D GROUPED_CONV_2D TRANSPOSE_CONV_2D",
    "elementwise": (
        "ABS ADD DIV EQUAL EXP FLOOR GREATER GREATER_EQUAL HARD_SWISH LESS LESS_EQUAL LOG LOGICAL_AND "
        "LOGICAL_NOT LOGICAL_OR MAXIMUM MINIMUM MUL NEG NOT_EQUAL POW PRELU RSQRT SELECT SIN SQRT SUB"
    ),
    "joining": "CONCATENATION PACK SLICE SPLIT STRIDED_SLICE",
    "lookup": "EMBEDDING_LOOKUP GATHER HASHTABLE_LOOKUP LSH_PROJECTION",
    "lstm": "BIDIRECTIONAL_SEQUENCE_LSTM LSTM QUANTIZED_16BIT_LSTM QUANTIZED_LSTM UNIDIRECTIONAL_SEQUENCE_LSTM",
    "making": "FILL RANDOM_MULTINOMIAL",
    "matrix": "BATCH_MATMUL FULLY_CONNECTED",
    "movement": (
        "BATCH_TO_SPACE_ND CHANNEL_SHUFFLE DEPTH_TO_SPACE MIRROR_PAD PAD PAD_V2 REVERSE SPACE_TO_BATCH_ND "
        "SPACE_TO_DEPTH TILE TRANSPOSE"
    ),
    "normalization": "INSTANCE_NORMALIZATION L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION",
    "pooling": "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D",
    "reduction": "ARGMAX ARGMIN MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_SUM TOPK_V2",
    "regions": "HEATMAP_MAX_KEYPOINT ROI_ALIGN ROI_POOLING",
    "resize": "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR",
    "rnn": "BIDIRECTIONAL_SEQUENCE_RNN RNN SVDF UNIDIRECTIONAL_SEQUENCE_RNN",
    "shape": "EXPAND_DIMS RANK RESHAPE SQUEEZE",
}
MODULES: Mapping[OperationType, str] = {
    OperationType[name]: module for module, names in _FAMILIES.items() for name in names.split()
}
"""The module of each operation, here and in ``nnhal.kernels``."""

DEFINITIONS: Mapping[OperationType, OperationDefinition] = LazyTable(
    __name__, {kind: f"{module}:{kind.name}" for kind, module in MODULES.items()}
)
"""Every operation that nnhal defines."""
