"""Meaning of an input: the line below its name in its operation's module, or what inputs of that name always are."""

from __future__ import annotations

import re
from enum import IntEnum

from nnhal.operations.operands import Inputs
from tests.reference.declared import strings_below

_COMMON = {
    "LAYOUT": "Whether images have their channels first; false by default.",
    "ACTIVATION": "0 none, 1 RELU, 2 RELU1, 3 RELU6.",
    "PADDING": "1 SAME, 2 VALID.",
    "PADDING_LEFT": "Elements.",
    "PADDING_RIGHT": "Elements.",
    "PADDING_TOP": "Elements.",
    "PADDING_BOTTOM": "Elements.",
    "STRIDE_WIDTH": "Elements.",
    "STRIDE_HEIGHT": "Elements.",
    "FILTER_WIDTH": "Elements.",
    "FILTER_HEIGHT": "Elements.",
    "DILATION_WIDTH": "1 by default.",
    "DILATION_HEIGHT": "1 by default.",
    "TIME_MAJOR": "Whether sequences are [time, batch, ...] instead of [batch, time, ...].",
    "CELL_CLIP": "The cell state is clamped to this on both sides; 0 for no limit.",
    "PROJECTION_CLIP": "The projected output is clamped to this on both sides; 0 for no limit.",
    "PROJECTION_WEIGHTS": "[output size, units].",
    "PROJECTION_BIAS": "[output size].",
    "OUTPUT_STATE": "[batch, output size]: that of the step before.",
    "CELL_STATE": "[batch, units]: that of the step before.",
    "WEIGHTS": "[units, input size].",
    "RECURRENT_WEIGHTS": "[units, units].",
    "AUX_WEIGHTS": "[units, auxiliary size].",
    "BIAS": "[units].",
    "STATE": "[batch, units]: that of the step before.",
}
TOLD_ONCE = {_COMMON[name] for name in ("LAYOUT", "ACTIVATION", "PADDING", "PADDING_LEFT", "DILATION_WIDTH")}
"""Meanings that the head of the page tells, for all operations."""
_PATTERNS = (
    (r"INPUT_TO_\w+_WEIGHTS", "[units, input size]."),
    (r"RECURRENT_TO_\w+_WEIGHTS", "[units, output size]."),
    (r"AUX_TO_\w+_WEIGHTS", "[units, auxiliary size]."),
    (r"CELL_TO_\w+_WEIGHTS", "[units]: a peephole."),
    (r"\w+_LAYER_NORM_WEIGHTS", "[units]."),
    (r"(\w+_GATE|CELL)_BIAS", "[units]."),
)
LSTM_ACTIVATION = "0 none, 1 RELU, 3 RELU6, 4 TANH, 6 SIGMOID: not the numbers of other operations."


def meaning_of(names: type[IntEnum], member: IntEnum) -> str:
    """Say what an input is and how it is laid out. Raises KeyError if nothing says it."""
    own = member.__doc__ if isinstance(member, Inputs) else strings_below(names).get(member.name)
    if own:
        return own
    if member.name == "ACTIVATION" and "CELL_CLIP" in names.__members__:
        return LSTM_ACTIVATION
    name = re.sub(r"^(FORWARD|BACKWARD)_", "", member.name)
    if name in _COMMON:
        return _COMMON[name]
    return next(text for pattern, text in _PATTERNS if re.fullmatch(pattern, name))
