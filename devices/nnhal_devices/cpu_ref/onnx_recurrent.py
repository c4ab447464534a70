"""RNN, GRU and LSTM of ONNX. The reference evaluator's ignore activations, clip, sequence_lens and input_forget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from nnhal.arrays import Array

Activation = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_PLAIN: dict[str, Activation] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "softplus": lambda x: np.logaddexp(x, 0),
}
_WITH_ALPHA: dict[str, tuple[Callable[[Array, float], Array], float]] = {
    "leakyrelu": (lambda x, alpha: np.where(x < 0, alpha * x, x), 0.01),
    "thresholdedrelu": (lambda x, alpha: np.where(x > alpha, x, 0), 1.0),
    "elu": (lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x), 1.0),
}
_WITH_BOTH: dict[str, tuple[Callable[[Array, float, float], Array], float, float]] = {
    "affine": (lambda x, alpha, beta: alpha * x + beta, 1.0, 0.0),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), 1.0, 1.0),
    "hardsigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), 0.2, 0.5),
}
ACTIVATIONS = frozenset({*_PLAIN, *_WITH_ALPHA, *_WITH_BOTH})
"""The activations that recurrent operators may have, in lower case, in which ONNX compares them."""


def _activations(names: Iterable[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Activation]:
    """Return functions for ``names``. Each takes the next parameters of its kinds, defaults where none is left."""
    alpha, beta = iter(alphas), iter(betas)

    def one(name: str) -> Activation:
        if name in _PLAIN:
            return _PLAIN[name]
        if name in _WITH_ALPHA:
            of_alpha, default = _WITH_ALPHA[name]
            first = next(alpha, default)
            return lambda x: of_alpha(x, first)
        of_both, *defaults = _WITH_BOTH[name]
        first, second = next(alpha, defaults[0]), next(beta, defaults[1])
        return lambda x: of_both(x, first, second)

    return [one(name.lower()) for name in names]


@dataclass(frozen=True, slots=True)
class _Direction:
    """The weights of one direction: W [gates * hidden, input], R [gates * hidden, hidden],
    each bias [gates * hidden].
    """

    w: Array
    r: Array
    bias_w: Array
    bias_r: Array
    peepholes: Sequence[Array]
    activations: Sequence[Activation]
    clip: float | None
    linear_before_reset: bool
    input_forget: bool

    def activate(self, index: int, x: Array) -> Array:
        return self.activations[index](x if self.clip is None else np.clip(x, -self.clip, self.clip))


_Step = Callable[[_Direction, Array, Sequence[Array]], tuple[Array, ...]]
"""Computes the states after an element of a batch of sequences, [batch, input], from those before, [batch, hidden]."""


def _rnn(d: _Direction, x: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    return (d.activate(0, x @ d.w.T + states[0] @ d.r.T + d.bias_w + d.bias_r),)


def _gru(d: _Direction, x: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    (h,) = states
    given = np.split(x @ d.w.T + d.bias_w, 3, -1)
    r_z, r_r, r_h = np.split(d.r, 3)
    bias_z, bias_r, bias_h = np.split(d.bias_r, 3)
    z = d.activate(0, given[0] + h @ r_z.T + bias_z)
    r = d.activate(0, given[1] + h @ r_r.T + bias_r)
    kept = r * (h @ r_h.T + bias_h) if d.linear_before_reset else (r * h) @ r_h.T + bias_h
    return ((1 - z) * d.activate(1, given[2] + kept) + z * h,)


def _lstm(d: _Direction, x: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    h, c = states
    i, o, f, new = np.split(x @ d.w.T + h @ d.r.T + d.bias_w + d.bias_r, 4, -1)
    peep_i, peep_o, peep_f = d.peepholes
    i = d.activate(0, i + peep_i * c)
    f = 1 - i if d.input_forget else d.activate(0, f + peep_f * c)
    c = f * c + i * d.activate(1, new)
    return d.activate(0, o + peep_o * c) * d.activations[2](c), c


class _Recurrent(OpRun):
    """Inputs: X, W, R, B, sequence_lens, initial_h; and of LSTM initial_c and P. Outputs: Y, Y_h; and of LSTM Y_c."""

    op_domain = ""
    gates: int
    states = 1
    usual: Sequence[str]
    step: _Step

    def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        filled_up: list[Array | None] = [*inputs, *[None] * (8 - len(inputs))]
        x, w, r, b, lengths, *rest = filled_up
        assert x is not None
        assert w is not None
        assert r is not None
        batch_first = bool(attributes.get("layout"))
        x = np.swapaxes(x, 0, 1) if batch_first else x
        time, batch, _ = x.shape
        directions, hidden = r.shape[0], r.shape[-1]
        steps = np.full(batch, time) if lengths is None else lengths
        names = attributes.get("activations") or [*self.usual] * directions
        functions = _activations(
            names, attributes.get("activation_alpha") or (), attributes.get("activation_beta") or ()
        )
        clip = attributes.get("clip") or None
        peepholes = np.zeros((directions, 3 * hidden), x.dtype) if rest[2] is None else rest[2]
        biases = np.zeros((directions, 2 * self.gates * hidden), x.dtype) if b is None else b
        initial = [
            np.zeros((directions, batch, hidden), x.dtype) if s is None else np.swapaxes(s, 0, 1) if batch_first else s
            for s in rest[: self.states]
        ]
        y = np.zeros((time, directions, batch, hidden), x.dtype)
        last = [np.array(s) for s in initial]
        for index in range(directions):
            count = len(self.usual)
            bias_w, bias_r = np.split(biases[index], 2)
            direction = _Direction(
                w[index],
                r[index],
                bias_w,
                bias_r,
                np.split(peepholes[index], 3),
                functions[index * count : (index + 1) * count],
                clip,
                bool(attributes.get("linear_before_reset")),
                bool(attributes.get("input_forget")),
            )
            backwards = index == 1 or attributes.get("direction") == "reverse"
            for turn in range(time):
                going = np.flatnonzero(steps > turn)
                places = steps[going] - 1 - turn if backwards else np.full(len(going), turn)
                states = type(self).step(direction, x[places, going], [s[index, going] for s in last])
                y[places, index, going] = states[0]
                for kept, state in zip(last, states, strict=True):
                    kept[index, going] = state
        for kept in last:
            kept[:, np.asarray(steps) == 0] = 0  # as ONNX Runtime has it
        results = [y.transpose(2, 0, 1, 3), *(np.swapaxes(s, 0, 1) for s in last)] if batch_first else [y, *last]
        return tuple(results[: len(self.onnx_node.output)])


class RNN(_Recurrent):
    """One gate."""

    gates, usual, step = 1, ("Tanh",), staticmethod(_rnn)


class GRU(_Recurrent):
    """Gates z, r, h."""

    gates, usual, step = 3, ("Sigmoid", "Tanh"), staticmethod(_gru)


class LSTM(_Recurrent):
    """Gates i, o, f, c; peepholes of i, o, f."""

    gates, usual, step, states = 4, ("Sigmoid", "Tanh", "Tanh"), staticmethod(_lstm), 2
