"""LSTM cells: of floats, for one step, through time and in both directions, and of integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.lstm import BidirectionalSequenceLstmInput, LstmInput, Quantized16bitLstmInput, QuantizedLstmInput
from nnhal.operations.operand_types import F16, F32, I32, Q8S, Q16S
from nnhal.types import OperandLifeTime
from tests.operations.rows import (
    Given,
    Literal,
    absent,
    changed,
    f32,
    gives,
    i32,
    integer,
    q8a,
    q8as,
    q8s,
    q16s,
    real,
    refuses,
    table,
    takes,
    waits,
)
from tests.support.lstm import (
    BATCH,
    FORMS,
    INPUT,
    UNITS,
    Form,
    as_givens,
    expected_sequence,
    expected_step,
    random_weights,
    sigmoid,
    without_aux,
)

_STEP, _SEQUENCE, _BOTH = "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"
_TANH, TIME, AUX = 4, 4, 2
_RNG = np.random.default_rng(1)
_EVERYTHING = Form(peephole=True, projection=2, projection_bias=True, layer_norm=True)
_COUPLED = Form(coupled=True, peephole=True)


def _drawn(*shape: int, spread: float = 0.5) -> Array:
    """Return random values that float16 represents exactly."""
    return np.round(_RNG.normal(0, spread, shape) * 64) / 64


_VALUES = _drawn(TIME, BATCH, INPUT, spread=1)
_STATES = {size: _drawn(BATCH, size) for size in (2, UNITS, 6)}
_MEMORY = _drawn(BATCH, UNITS)
_ZERO = np.zeros((BATCH, UNITS))


def _cell(
    form: Form, values: Array = _VALUES[0], state: Array | None = None, memory: Array = _MEMORY, activation: int = _TANH
) -> list[Literal]:
    weights = random_weights(form)
    given = _STATES[form.output_size] if state is None else state
    inputs: list[Literal] = [f32(values), *weights.givens(F32), f32(given), f32(memory), activation]
    norm = as_givens(F32, weights.layer_norm) if form.layer_norm else []
    return [*inputs, float(form.cell_clip), float(form.projection_clip), *norm]


def _results(form: Form, batch: int = BATCH) -> list[Given]:
    state = f32[batch, form.output_size]
    return [f32[batch, UNITS * (3 if form.coupled else 4)], state, f32[batch, UNITS], state]


def _stepped(form: Form) -> list[Given]:
    result, memory = expected_step(random_weights(form), _VALUES[0], _STATES[form.output_size], _MEMORY)
    return [_results(form)[0], f32(result), f32(memory), f32(result)]


def _activated(function: Callable[[Array], Array]) -> list[Given]:
    """Return the results of a coupled cell from zero, whose activation is its own enumeration."""
    weights = random_weights(Form(coupled=True))
    forget, update, out = (_VALUES[0] @ weights.weights[i].T + weights.bias[i] for i in (1, 2, 3))
    memory = (1 - sigmoid(forget)) * function(update)
    result = sigmoid(out) * function(memory)
    return [f32[BATCH, 3 * UNITS], f32(result), f32(memory), f32(result)]


def _of_bias() -> list[Given]:
    """Return the results of a normalised cell that sees nothing: its biases'."""
    bias = random_weights(Form(layer_norm=True)).bias
    memory = np.tile(sigmoid(bias[0]) * np.tanh(bias[2]), (BATCH, 1))
    result = sigmoid(bias[3]) * np.tanh(memory)
    return [f32[BATCH, 4 * UNITS], f32(result), f32(memory), f32(result)]


_PLAIN, _OUT = _cell(Form()), _results(Form())

STEPS = table(
    *(takes(_STEP, _cell(form), _results(form)) for form in FORMS.values()),
    takes(_STEP, _PLAIN, _OUT, f32=1, f16=3),
    takes(_STEP, _cell(Form(layer_norm=True)), _OUT, f32=3, f16=3),
    takes(
        _STEP,
        changed(changed(changed(_PLAIN, 0, f32[0, INPUT]), 18, f32[0, UNITS]), 19, f32[0, UNITS]),
        _results(Form(), 0),
    ),
    *(
        refuses(_STEP, changed(_cell(_EVERYTHING), missing, None), [f32[()]] * 4, words)
        for missing, words in (
            (LstmInput.INPUT_GATE_BIAS, "input gate: some are left out"),
            (LstmInput.RECURRENT_TO_INPUT_WEIGHTS, "input gate: some are left out"),
            (LstmInput.CELL_TO_INPUT_WEIGHTS, "peephole weights: some are left out"),
            (LstmInput.CELL_TO_OUTPUT_WEIGHTS, "peephole weights: some are left out"),
            (LstmInput.CELL_LAYER_NORM_WEIGHTS, "layer normalisation weights: some are left out"),
            (LstmInput.PROJECTION_WEIGHTS, "projection bias without projection weights"),
        )
    ),
    refuses(
        _STEP,
        changed(_cell(_COUPLED), LstmInput.CELL_TO_INPUT_WEIGHTS, _cell(_COUPLED)[LstmInput.CELL_TO_FORGET_WEIGHTS]),
        [f32[()]] * 4,
        "the gate is coupled to the forget gate",
    ),
    *(
        refuses(_STEP, changed(_PLAIN, required, None), _OUT, "is NO_VALUE, expected a value")
        for required in (LstmInput.INPUT_TO_FORGET_WEIGHTS, LstmInput.CELL_BIAS, LstmInput.OUTPUT_STATE)
    ),
    refuses(
        _STEP,
        changed(_PLAIN, LstmInput.PROJECTION_WEIGHTS, absent(F16)),
        _OUT,
        "TENSOR_FLOAT16, expected TENSOR_FLOAT32",
    ),
    # The request may still omit an operand.
    waits(
        _STEP,
        changed(
            _PLAIN,
            LstmInput.INPUT_TO_INPUT_WEIGHTS,
            Given(replace(f32[UNITS, INPUT].operand, lifetime=OperandLifeTime.SUBGRAPH_INPUT)),
        ),
        _OUT,
    ),
    *(
        refuses(_STEP, changed(_PLAIN, LstmInput.ACTIVATION, code), _OUT, f"activation {code}, expected 0")
        for code in (2, 5, -1)
    ),
    *(
        refuses(_STEP, changed(_PLAIN, clip, -1.0), _OUT, "expected 0 or more")
        for clip in (LstmInput.CELL_CLIP, LstmInput.PROJECTION_CLIP)
    ),
    refuses(
        _STEP,
        changed(_cell(Form(projection=2)), LstmInput.PROJECTION_WEIGHTS, None),
        [f32[()]] * 4,
        "a cell without projection makes the output size 4, expected 2",
    ),
    *(gives(_STEP, _cell(form), _stepped(form), near=1e-5) for form in FORMS.values()),
    *(
        gives(_STEP, _cell(Form(coupled=True), _VALUES[0], _ZERO, _ZERO, code), _activated(function), near=1e-5)
        for code, function in (
            (0, lambda x: x),
            (1, partial(np.maximum, 0)),
            (3, partial(np.clip, a_min=0, a_max=6)),
            (6, sigmoid),
        )
    ),
    gives(
        _STEP,
        _cell(Form(layer_norm=True), np.zeros((BATCH, INPUT)), _ZERO, _ZERO),
        _of_bias(),
        near=1e-5,
    ),
)


def _through_time(form: Form, major: bool) -> list[Literal]:
    cell = _cell(replace(form, layer_norm=False), _VALUES if major else _VALUES.swapaxes(0, 1))
    weights = random_weights(form)
    return [cell[0], *weights.givens(F32), *cell[18:23], major, *as_givens(F32, weights.layer_norm)]


def _outputs(form: Form, major: bool) -> list[Given]:
    outputs, last, memory = expected_sequence(random_weights(form), _VALUES, _STATES[form.output_size], _MEMORY)
    return [f32(outputs if major else outputs.swapaxes(0, 1)), f32(last), f32(memory)]


SEQUENCES = table(
    *(
        gives(_SEQUENCE, _through_time(form, major), _outputs(form, major), near=1e-5)
        for form in FORMS.values()
        for major in (True, False)
    ),
    gives(_SEQUENCE, _through_time(Form(), True), _outputs(Form(), True)[:1], near=1e-5),
)

_AUX_VALUES = _drawn(TIME, BATCH, AUX, spread=1)


class _Both:
    """A forward and a backward cell, with states to start from."""

    def __init__(self, form: Form, backward: Form | None = None, backward_input: int = INPUT) -> None:
        self.forms = form, backward or form
        self.cells = random_weights(form, 5), random_weights(self.forms[1], 6, backward_input)
        self.states = [_drawn(BATCH, size) for form in self.forms for size in (form.output_size, UNITS)]

    def inputs(self, aux: Array | None = None, merged: bool = False, major: bool = True) -> list[Literal]:
        def sequence(values: Array) -> Given:
            return f32(values if major else values.swapaxes(0, 1))

        forward, backward = self.cells
        return [
            sequence(_VALUES),
            *forward.givens(F32),
            *backward.givens(F32),
            *map(f32, self.states),
            None if aux is None else sequence(aux),
            *as_givens(F32, forward.aux),
            *as_givens(F32, backward.aux),
            _TANH,
            float(self.forms[0].cell_clip),
            float(self.forms[0].projection_clip),
            merged,
            major,
            *as_givens(F32, forward.layer_norm),
            *as_givens(F32, backward.layer_norm),
        ]

    def expected(self, first: Array, second: Array) -> list[Array]:
        """Return the outputs of sequences that the cells see, and the states."""
        forward, backward = (without_aux(cell) if cell.form.aux else cell for cell in self.cells)
        outputs, *states = expected_sequence(forward, first, *self.states[:2])
        back, *others = expected_sequence(backward, second[::-1], *self.states[2:])
        return [outputs, back[::-1], *states, *others]


def _shapes(merged: bool = False, states: int = 0) -> list[Given]:
    sequences = [f32[TIME, BATCH, 2 * UNITS]] if merged else [f32[TIME, BATCH, UNITS]] * 2
    return sequences + [f32[BATCH, UNITS]] * states


_ALONE = [_Both(Form()), _Both(_COUPLED), _Both(FORMS["everything"])]
_PAIR, _PROJECTED, _UNEQUAL = _Both(Form()), _Both(Form(projection=2)), _Both(Form(projection=2), Form(projection=6))
_LINKED, _NORMED = _Both(Form(aux=AUX)), {c: _Both(Form(coupled=c, layer_norm=True, aux=AUX)) for c in (False, True)}
_PARALLEL = _Both(Form(), backward_input=AUX)
_JOINED = np.concatenate([_VALUES, _AUX_VALUES], axis=-1)
assert len(_PAIR.inputs()) == len(BidirectionalSequenceLstmInput)


def _merged(found: list[Array]) -> list[Given]:
    return [f32(np.concatenate(found[:2], axis=-1)), *map(f32, found[2:])]


BOTH = table(
    # States as outputs and parallel linking came with level 4.
    takes(_BOTH, _PAIR.inputs(), _shapes(), f32=3, f16=3),
    takes(_BOTH, _PAIR.inputs(), _shapes(states=4), level=4),
    takes(_BOTH, _LINKED.inputs(_AUX_VALUES), _shapes(), level=3),
    takes(_BOTH, _PARALLEL.inputs(_AUX_VALUES), _shapes(), level=4),
    takes(_BOTH, _PAIR.inputs(merged=True), _shapes(merged=True), level=3),
    takes(_BOTH, _PAIR.inputs(merged=True), _shapes(merged=True, states=4), level=4),
    *(
        takes(_BOTH, _UNEQUAL.inputs(major=major), [f32[*axes, 2], f32[*axes, 6], *states], level=level)
        for major, axes in ((True, (TIME, BATCH)), (False, (BATCH, TIME)))
        for states, level in (([], 3), ([f32[BATCH, n] for n in (2, UNITS, 6, UNITS)], 4))
    ),
    *(
        refuses(_BOTH, _PAIR.inputs(merged=merged), [f32[()]] * count, f"got {count} outputs, expected")
        for merged, count in ((False, 1), (True, 2), (False, 5), (True, 6))
    ),
    refuses(_BOTH, _PAIR.inputs(), [*_shapes(), f32[()], f32[()]], "got 4 outputs"),
    refuses(_BOTH, _PAIR.inputs(merged=True), [f32[0, 0, 0], i32[0, 0, 0]], "output 1 is TENSOR_INT32"),
    refuses(_BOTH, _LINKED.inputs(), _shapes(), "weights for the auxiliary input without that input"),
    refuses(_BOTH, _Both(Form(aux=AUX), Form()).inputs(_AUX_VALUES), _shapes(), "expected both or none"),
    refuses(_BOTH, _PAIR.inputs(_AUX_VALUES), _shapes(), f"input size {INPUT}, expected {AUX}"),
    *(
        gives(
            _BOTH,
            both.inputs(major=major),
            [
                f32(each if major or n > 1 else each.swapaxes(0, 1))
                for n, each in enumerate(both.expected(_VALUES, _VALUES))
            ],
            near=1e-5,
        )
        for both in _ALONE
        for major in (True, False)
    ),
    *(
        gives(_BOTH, _PROJECTED.inputs(merged=True), _merged(_PROJECTED.expected(_VALUES, _VALUES))[:count], near=1e-5)
        for count in (1, 5)
    ),
    # Cross-linked cells read the auxiliary input beside the input, a parallel-linked backward cell instead of it.
    *(
        gives(_BOTH, both.inputs(_AUX_VALUES), [*map(f32, both.expected(_JOINED, _JOINED))], near=1e-5)
        for both in _NORMED.values()
    ),
    gives(_BOTH, _PARALLEL.inputs(_AUX_VALUES), [*map(f32, _PARALLEL.expected(_VALUES, _AUX_VALUES))], near=1e-5),
)

_SEEN, _CELL, _LOADS = q8a.at(1 / 128, 128), q16s.at(2.0**-11), q8a.at(0.00408021, 100)
_16BIT: list[Literal] = [
    _SEEN[2, 3],
    *[_LOADS[UNITS, 3]] * 4,
    *[_LOADS[UNITS, UNITS]] * 4,
    *[i32.at(3.18766e-05)[UNITS]] * 4,
    _CELL[2, UNITS],
    _SEEN[2, UNITS],
]
_16BIT_OUT = [_CELL[2, UNITS], _SEEN[2, UNITS]]
_FULL = [q8a.at(0.01, 100)(np.full((2, 2), 255))] * 8
_QUANTIZED_CELL = q16s.at(2.0**-12)


def _quantized(cell_scale: float = 2.0**-12, hidden: tuple[int, float] = (0, 1 / 128)) -> list[Literal]:
    loads, out = q8s.at(0.01), q8as.at(1 / 128)
    return [
        q8as.at(0.01)[2, 5],
        *[loads[UNITS, 5]] * 4,
        *[loads[UNITS, UNITS]] * 4,
        *[absent(Q16S)] * 3,
        *[i32[UNITS]] * 4,
        absent(Q8S),
        absent(I32),
        out[2, UNITS],
        q16s.at(cell_scale)[2, UNITS],
        *[absent(Q16S)] * 4,
        *[0.0] * 6,
        integer(hidden[0]),
        real(hidden[1]),
    ]


_QUANTIZED_OUT = [q8as.at(1 / 128)[2, UNITS], _QUANTIZED_CELL[2, UNITS], q8as.at(1 / 128)[2, UNITS]]
_NORMED_BYTES = _quantized()
for _index in range(QuantizedLstmInput.INPUT_LAYER_NORM_WEIGHTS, QuantizedLstmInput.CELL_CLIP):
    _NORMED_BYTES[_index] = q16s.at(0.001)[UNITS]

INTEGERS = table(
    takes("QUANTIZED_16BIT_LSTM", _16BIT, _16BIT_OUT, level=3),
    *(
        refuses("QUANTIZED_16BIT_LSTM", changed(_16BIT, index, wrong), _16BIT_OUT, words)
        for index, wrong, words in (
            (Quantized16bitLstmInput.INPUT, q8a.at(1 / 64, 128)[2, 3], "input has scale and zero point"),
            (Quantized16bitLstmInput.OUTPUT_STATE, q8a.at(1 / 128, 127)[2, UNITS], "output state has"),
            (Quantized16bitLstmInput.CELL_STATE, q16s.at(2.0**-12)[2, UNITS], "cell state has"),
            (Quantized16bitLstmInput.RECURRENT_TO_CELL_WEIGHTS, q8a.at(0.005, 100)[UNITS, UNITS], "input 7 has"),
            (Quantized16bitLstmInput.CELL_BIAS, i32.at(1e-5)[UNITS], "bias 11 has scale"),
            (Quantized16bitLstmInput.CELL_BIAS, i32.at(3.18766e-05)[UNITS + 1], "input 11 makes the output size 5"),
        )
    ),
    refuses("QUANTIZED_16BIT_LSTM", _16BIT, [_CELL[2, UNITS], q8a.at(1 / 256, 128)[2, UNITS]], "output 1 has scale"),
    # A saturated cell stays within 16 bits.
    gives(
        "QUANTIZED_16BIT_LSTM",
        [
            _SEEN([[255, 255]]),
            *_FULL,
            *[i32.at(0.01 / 128)([1 << 20, 1 << 20])] * 4,
            _CELL([[32767, 32767]]),
            _SEEN([[255, 255]]),
        ],
        [_CELL([[32767, 32767]]), _SEEN([[255, 255]])],
    ),
    takes("QUANTIZED_LSTM", _quantized(), _QUANTIZED_OUT, level=4),
    # The cell state's scale is a power of two to a few decimals.
    *(takes("QUANTIZED_LSTM", _quantized(scale), _QUANTIZED_OUT) for scale in (3.05176e-05, 2.0**-9)),
    *(
        refuses("QUANTIZED_LSTM", _quantized(scale), _QUANTIZED_OUT, "expected a power of two")
        for scale in (2.0**-8, 2.0**-16, 0.0003)
    ),
    *(
        refuses("QUANTIZED_LSTM", _quantized(hidden=hidden), _QUANTIZED_OUT, words)
        for hidden, words in (((128, 0.01), "zero point 128"), ((0, 0.0), "input 31 is the scale 0.0"))
    ),
    # Intermediate scales matter only with layer normalisation.
    refuses("QUANTIZED_LSTM", _NORMED_BYTES, _QUANTIZED_OUT, r"input 26 is the scale 0\.0"),
)

ROWS = [*STEPS, *SEQUENCES, *BOTH, *INTEGERS]
