"""LSTM, RNN and SVDF, for one step and for whole sequences.

TFLite keeps their state in variables. The state of an operator that does one step becomes an input and an output of the
model. An operator that does a whole sequence begins with zeros, like an interpreter whose variables have been reset.
"""

from __future__ import annotations

from tflite import (
    ActivationFunctionType,
    BidirectionalSequenceLSTMOptions,
    BidirectionalSequenceRNNOptions,
    LSTMKernelType,
    LSTMOptions,
    RNNOptions,
    SequenceRNNOptions,
    SVDFOptions,
    UnidirectionalSequenceLSTMOptions,
)

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.graph import OperatorOptions

_CELL_ACTIVATIONS = {
    ActivationFunctionType.NONE: 0,
    ActivationFunctionType.RELU: 1,
    ActivationFunctionType.RELU6: 3,
    ActivationFunctionType.TANH: 4,
}
_CELL = range(18)
"""The positions of input, weights and biases of an LSTM."""


def lstm(b: OperatorBuilder) -> None:
    """LSTM with weights for each gate."""
    output_state, cell_state, layer_norms = 18, 19, range(20, 24)
    options = b.options(LSTMOptions)
    if options.KernelType != LSTMKernelType.FULL:
        raise b.unsupported(f"kernel type {options.KernelType}", "FULL")
    h, next_h = b.state(output_state)
    c, next_c = b.state(cell_state)
    norms = [_given(b, i) for i in layer_norms] if any(b.has(i) for i in layer_norms) else []
    inputs = [*(_given(b, i) for i in _CELL), h, c, *_cell_parameters(b, options), *norms]
    b.add(OperationType.LSTM, inputs, [b.new(b.input(0)), next_h, next_c, b.result()])


def unidirectional_sequence_lstm(b: OperatorBuilder) -> None:
    states, layer_norms = range(18, 20), range(20, 24)
    options = b.options(UnidirectionalSequenceLSTMOptions)
    if options.DiagonalRecurrentTensors:
        raise b.unsupported("diagonal recurrent weights", "full matrices")
    inputs = [*(_given(b, i) for i in _CELL), *(b.initial_state(i) for i in states), *_cell_parameters(b, options)]
    norms = [_given(b, i) for i in layer_norms]
    b.finish(OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM, [*inputs, b.boolean(options.TimeMajor), *norms])


def bidirectional_sequence_lstm(b: OperatorBuilder) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM, without layer normalisation."""
    cells, states, auxiliary, norms = range(35), range(35, 39), range(39, 48), 8
    options = b.options(BidirectionalSequenceLSTMOptions)
    inputs = [
        *(_given(b, i) for i in cells),
        *(b.initial_state(i) for i in states),
        *(_given(b, i) for i in auxiliary),
        *_cell_parameters(b, options),
        b.boolean(options.MergeOutputs),
        b.boolean(options.TimeMajor),
    ]
    none = [b.absent(b.operand(b.input(0)).type) for _ in range(norms)]
    b.add(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, inputs + none, b.results())


def rnn(b: OperatorBuilder) -> None:
    cell, state = range(4), 4
    activation = b.activation(b.options(RNNOptions).FusedActivationFunction)
    before, after = b.state(state)
    b.add(OperationType.RNN, [*(_given(b, i) for i in cell), before, activation], [after, b.result()])


def unidirectional_sequence_rnn(b: OperatorBuilder) -> None:
    cell, state = range(4), 4
    options = b.options(SequenceRNNOptions)
    parameters = [b.activation(options.FusedActivationFunction), b.int32(options.TimeMajor)]
    inputs = [*(_given(b, i) for i in cell), b.initial_state(state), *parameters]
    b.finish(OperationType.UNIDIRECTIONAL_SEQUENCE_RNN, inputs)


def bidirectional_sequence_rnn(b: OperatorBuilder) -> None:
    states, count = (4, 8), 12
    options = b.options(BidirectionalSequenceRNNOptions)
    inputs = [b.initial_state(i) if i in states else _given(b, i) for i in range(count)]
    flags = [b.boolean(options.TimeMajor), b.boolean(options.MergeOutputs)]
    activation = b.activation(options.FusedActivationFunction)
    b.add(OperationType.BIDIRECTIONAL_SEQUENCE_RNN, [*inputs, activation, *flags], b.results())


def svdf(b: OperatorBuilder) -> None:
    weights_and_bias, state = range(4), 4
    options = b.options(SVDFOptions)
    parameters = [b.int32(options.Rank), b.activation(options.FusedActivationFunction)]
    before, after = b.state(state)
    b.add(OperationType.SVDF, [*(_given(b, i) for i in weights_and_bias), before, *parameters], [after, b.result()])


def _given(b: OperatorBuilder, index: int) -> int:
    """Return an input, with quantised weights as floats, or an operand for one that is left out."""
    if index == 0:
        return b.input(0)
    return b.reals(index) if b.has(index) else b.absent(b.operand(b.input(0)).type)


def _cell_parameters(b: OperatorBuilder, options: OperatorOptions) -> list[int]:
    code = options.FusedActivationFunction
    if code not in _CELL_ACTIVATIONS:
        raise b.unsupported(f"activation {code}", "NONE, RELU, RELU6, TANH")
    clips = [b.real_like(b.input(0), clip) for clip in (options.CellClip, options.ProjClip)]
    return [b.int32(_CELL_ACTIVATIONS[code]), *clips]
