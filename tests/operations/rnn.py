"""Recurrent cells without gates, and SVDF."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from tests.operations.rows import Given, Literal, changed, f32, gives, refuses, table, takes

_STEP, _SEQUENCE, _BOTH = "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"
BATCH, INPUT, UNITS, TIME, AUX = 2, 3, 4, 5, 2
_RELU = 1
_RNG = np.random.default_rng(4)
_CELL = [f32[UNITS, INPUT], f32[UNITS, UNITS], f32[UNITS], f32[BATCH, UNITS]]


def _drawn(*shape: int) -> Array:
    """Return random values that float16 represents exactly."""
    return np.round(_RNG.normal(0, 0.5, shape) * 64) / 64


def _cell(units: int = UNITS, inputs: int = INPUT) -> list[Array]:
    """Return weights, recurrent weights, bias and state."""
    return [_drawn(units, inputs), _drawn(units, units), _drawn(units), _drawn(BATCH, units)]


def _run(cell: list[Array], sequence: Array) -> tuple[Array, Array]:
    """Return outputs [time, batch, units] with RELU as activation, and the last state."""
    weights, recurrent, bias, state = cell
    outputs = []
    for step in sequence:
        state = np.maximum(step @ weights.T + state @ recurrent.T + bias, 0)
        outputs.append(state)
    return np.array(outputs), state


_VALUES, _FORWARD, _BACKWARD = _drawn(TIME, BATCH, INPUT), _cell(), _cell(UNITS + 1)
_AUX, _FORWARD_AUX, _BACKWARD_AUX = _drawn(TIME, BATCH, AUX), _drawn(UNITS, AUX), _drawn(UNITS + 1, AUX)
_PARALLEL = [_drawn(UNITS + 1, AUX), *_BACKWARD[1:]]
_OUTPUTS, _LAST = _run(_FORWARD, _VALUES)
_STATE_OF_ONE = _run(_FORWARD, _VALUES[:1])[1]

STEPS = table(
    takes(_STEP, [f32[BATCH, INPUT], *_CELL, _RELU], [f32[BATCH, UNITS]] * 2, f32=1, f16=3),
    refuses(
        _STEP,
        [f32[BATCH, INPUT], *changed(_CELL, 1, f32[UNITS, UNITS + 1]), _RELU],
        [f32[()]] * 2,
        "the output size 5, expected 4",
    ),
    gives(_STEP, [f32(_VALUES[0]), *map(f32, _FORWARD), _RELU], [f32(_STATE_OF_ONE)] * 2, near=1e-5),
    takes(_SEQUENCE, [f32[TIME, BATCH, INPUT], *_CELL, 0, 1], f32[TIME, BATCH, UNITS], f32=3, f16=3),
    takes(_SEQUENCE, [f32[BATCH, TIME, INPUT], *_CELL, 0, 0], f32[BATCH, TIME, UNITS], f32=3, f16=3),
    # The state as an output came with level 4.
    takes(
        _SEQUENCE, [f32[TIME, BATCH, INPUT], *_CELL, 0, 1], [f32[TIME, BATCH, UNITS], f32[BATCH, UNITS]], f32=4, f16=4
    ),
    *(
        refuses(_SEQUENCE, [f32[TIME, BATCH, INPUT], *_CELL, *parameters], f32[()], "expected 0")
        for parameters in ((4, 1), (0, 2))
    ),
    *(
        gives(
            _SEQUENCE,
            [f32(_VALUES if major else _VALUES.swapaxes(0, 1)), *map(f32, _FORWARD), _RELU, major],
            [f32(_OUTPUTS if major else _OUTPUTS.swapaxes(0, 1)), f32(_LAST)][:count],
            near=1e-5,
        )
        for major in (1, 0)
        for count in (1, 2)
    ),
)


def _both(
    backward: list[Array], aux: Array | None = None, crossed: bool = False, merged: bool = False, major: bool = True
) -> list[Literal]:
    def sequence(values: Array) -> Given:
        return f32(values if major else values.swapaxes(0, 1))

    return [
        sequence(_VALUES),
        *map(f32, (*_FORWARD, *backward)),
        None if aux is None else sequence(aux),
        *((f32(_FORWARD_AUX), f32(_BACKWARD_AUX)) if crossed else (None, None)),
        _RELU,
        major,
        merged,
    ]


_BACK, _FIRST = (each[::-1] if each.ndim == 3 else each for each in _run(_BACKWARD, _VALUES[::-1]))
_MERGED = np.concatenate([_OUTPUTS, _BACK], axis=-1)
_JOINED = np.concatenate([_VALUES, _AUX], axis=-1)
_CROSSED = [np.hstack([_FORWARD[0], _FORWARD_AUX]), *_FORWARD[1:]]
_CROSSED_BACK = [np.hstack([_BACKWARD[0], _BACKWARD_AUX]), *_BACKWARD[1:]]

SEQUENCES = table(
    # The backward cell starts at the end.
    *(
        gives(
            _BOTH,
            _both(_BACKWARD, major=major),
            [
                *(f32(each if major else each.swapaxes(0, 1)) for each in (_OUTPUTS, _BACK)),
                f32(_LAST),
                f32(_FIRST),
            ],
            near=1e-5,
        )
        for major in (True, False)
    ),
    *(
        gives(_BOTH, _both(_BACKWARD, merged=True), [f32(_MERGED), *states], near=1e-5)
        for states in ([], [f32(_LAST), f32(_FIRST)])
    ),
    # Cross-linked cells read the auxiliary input beside the input, a parallel-linked backward cell instead of it.
    gives(
        _BOTH,
        _both(_BACKWARD, _AUX, crossed=True),
        [f32(_run(_CROSSED, _JOINED)[0]), f32(_run(_CROSSED_BACK, _JOINED[::-1])[0][::-1])],
        near=1e-5,
    ),
    gives(_BOTH, _both(_PARALLEL, _AUX), [f32(_OUTPUTS), f32(_run(_PARALLEL, _AUX[::-1])[0][::-1])], near=1e-5),
)

_FILTERS, _MEMORY = 6, 5


def _filtering(rank: int, bias: Literal = None, state: int = _MEMORY * _FILTERS) -> list[Literal]:
    return [f32[BATCH, INPUT], f32[_FILTERS, INPUT], f32[_FILTERS, _MEMORY], bias, f32[BATCH, state], rank, 0]


FILTERED = table(
    takes("SVDF", _filtering(2), [f32[BATCH, _MEMORY * _FILTERS], f32[BATCH, 3]], f32=1, f16=3),
    takes("SVDF", _filtering(2, f32[3]), [f32[BATCH, _MEMORY * _FILTERS], f32[BATCH, 3]], f32=1, f16=3),
    *(
        refuses("SVDF", form, [f32[()]] * 2, words)
        for form, words in (
            (_filtering(4), "got 6 filters, expected a multiple of 4"),
            (_filtering(0), "rank 0, expected 1 or more"),
            (_filtering(2, f32[6]), "the units 6, expected 3"),
            (_filtering(2, None, (_MEMORY - 1) * _FILTERS), "the state size 30, expected 24"),
        )
    ),
)

ROWS = [*STEPS, *SEQUENCES, *FILTERED]
