"""Replace groups of operators, and operators that the accelerator lacks, by its own.

x * sigmoid(x) is silu, clip(x + 3, 0, 6) / 6 and clip(a * x + b, 0, 1) are hard_sigmoid, and with x as a further factor
hard_swish, and x * (1 + erf(x / sqrt(2))) / 2 is gelu, as is its approximation by tanh: functions that a table has. One
clip is what several are. A division by a constant is a multiplication, a
difference a sum, a prelu and a batch normalisation that stands alone are products and sums; a product or sum with a
number for each channel is in the weights or the bias of the layer before it. The public flow does none of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, isclose, pi, sqrt
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.passes.simplify import simplify

_CLOSE = 1e-3
_CONVOLUTIONS = (Operator.CONV2D, Operator.CONV2D_TRANSPOSE)
_SIXTH: Mapping[str, Attribute] = {"alpha": 1 / 6, "beta": 0.5}


def in_own_operators(graph: FlowGraph) -> FlowGraph:
    """Return a graph with the same results. What it no longer needs is left in it.

    Functions are found before anything else is rewritten, so that their factors stay in the table's float32.
    """
    return _Rewriting(simplify(_Rewriting(graph, functions=True).written()), functions=False).written()


class _Product(NamedTuple):
    """A product of values and a number."""

    factor: float
    values: tuple[str, ...]
    inner: tuple[FlowNode, ...]
    """The nodes that compute it, but for the last."""


class _Rewriting:
    def __init__(self, graph: FlowGraph, functions: bool) -> None:
        self._graph = graph
        self._functions = functions
        self._uses = graph.uses()
        self._producers: dict[str, FlowNode] = {}
        self._values = dict(graph.values)
        self._constants = dict(graph.constants)

    def written(self) -> FlowGraph:
        nodes: list[FlowNode] = []
        for node in self._graph.nodes:
            for made in self._rewritten(node):
                nodes.append(made)
                self._producers.update(dict.fromkeys(made.outputs, made))
        return replace(self._graph, nodes=tuple(nodes), values=self._values, constants=self._constants)

    def _rewritten(self, node: FlowNode) -> Sequence[FlowNode]:
        if node.evaluate is not None or self._values[node.output].element_type.kind != "f":
            return [node]
        return self._found(node) if self._functions else self._own(node)

    def _found(self, node: FlowNode) -> Sequence[FlowNode]:
        match node.operator:
            case Operator.MULTIPLY | Operator.DIVIDE:
                return [self._function(node) or node]
            case Operator.CLIP:
                return [self._linear_within_one(self._once(node))]
            case Operator.RESHAPE if self._values[node.inputs[0]] == self._values[node.output]:
                return [replace(node, operator=Operator.COPY, attributes={})]
        return [node]

    def _own(self, node: FlowNode) -> Sequence[FlowNode]:
        match node.operator:
            case Operator.MULTIPLY | Operator.DIVIDE:
                return self._scaled(self._divided(node))
            case Operator.ADD:
                return [self._shifted(node)]
            case Operator.SUBTRACT:
                return list(self._subtracted(node))
            case Operator.PRELU if node.inputs[1] in self._constants:
                return list(self._prelu(node))
            case Operator.BATCH_NORM if not self._follows_convolution(node):
                return list(self._normalised(node))
        return [node]

    def _function(self, node: FlowNode) -> FlowNode | None:
        product = self._product(node)
        if len(product.values) == 1 and isclose(product.factor, 1 / 6, rel_tol=_CLOSE):
            (value,) = product.values
            return self._clipped(node, product, value, Operator.HARD_SIGMOID, _SIXTH)
        if len(product.values) != 2:
            return None
        for data, other in (product.values, product.values[::-1]):
            inner = self._inner(other)
            if inner is None:
                continue
            if isclose(product.factor, 1 / 6, rel_tol=_CLOSE):
                found = self._clipped(node, product, other, Operator.HARD_SWISH, {}, data)
            elif isclose(product.factor, 1 / 2, rel_tol=_CLOSE):
                found = self._gelu(node, product, inner, data)
            elif product.factor != 1 or inner.inputs[0] != data:
                continue
            elif inner.operator == Operator.SIGMOID:
                found = self._as(node, Operator.SILU, data, (*product.inner, inner))
            else:
                is_sixth = inner.operator == Operator.HARD_SIGMOID and all(
                    isclose(inner.real(name), float(str(value)), rel_tol=_CLOSE) for name, value in _SIXTH.items()
                )
                found = self._as(node, Operator.HARD_SWISH, data, (*product.inner, inner)) if is_sixth else None
            if found:
                return found
        return None

    def _clipped(
        self,
        node: FlowNode,
        product: _Product,
        value: str,
        operator: Operator,
        attributes: Mapping[str, Attribute],
        data: str = "",
    ) -> FlowNode | None:
        """A function whose factor is clip(x + 3, 0, 6), if ``value`` is that, of ``data`` if it is given."""
        clip = self._inner(value)
        if clip is None or clip.operator != Operator.CLIP or (clip.real("a_min"), clip.real("a_max")) != (0, 6):
            return None
        added = self._inner(clip.inputs[0])
        given = self._plus(added, 3.0)
        if added is None or not given or (data and given != data):
            return None
        return self._as(node, operator, given, (*product.inner, added, clip), attributes)

    def _gelu(self, node: FlowNode, product: _Product, added: FlowNode, data: str) -> FlowNode | None:
        bent = self._inner(self._plus(added, 1.0) or "")
        inner = self._inner(bent.inputs[0]) if bent is not None else None
        scaled = self._product(inner) if inner is not None else _Product(1.0, (), ())
        if bent is None or inner is None:
            return None
        steps = (*product.inner, *scaled.inner, inner, bent, added)
        if (
            bent.operator == Operator.ERF
            and scaled.values == (data,)
            and isclose(scaled.factor, sqrt(0.5), rel_tol=_CLOSE)
        ):
            return self._as(node, Operator.GELU, data, steps)
        if bent.operator != Operator.TANH or not isclose(scaled.factor, sqrt(2 / pi), rel_tol=_CLOSE):
            return None
        for factor, other in (scaled.values, scaled.values[::-1]) if len(scaled.values) == 2 else ():
            above = self._inner(other)
            cubic = self._factors(self._plus(above, 1.0) or "")
            if factor == data and cubic.values == (data, data) and isclose(cubic.factor, 0.044715, rel_tol=_CLOSE):
                return self._as(node, Operator.GELU_TANH, data, (*cubic.inner, *filter(None, (above,)), *steps))
        return None

    def _once(self, node: FlowNode) -> FlowNode:
        first = self._inner(node.inputs[0])
        if first is None or first.operator != Operator.CLIP:
            return node
        low, high = node.real("a_min"), node.real("a_max")
        ends = {name: min(max(first.real(name), low), high) for name in ("a_min", "a_max")}
        return self._as(node, Operator.CLIP, first.inputs[0], (first,), ends)

    def _linear_within_one(self, node: FlowNode) -> FlowNode:
        """A hard sigmoid in place of a clip from 0 to 1, if a number is added to what it clips."""
        added = self._inner(node.inputs[0])
        if added is None or (node.real("a_min"), node.real("a_max")) != (0, 1):
            return node
        for data, number in self._sums(added):
            line = self._factors(data)
            if len(line.values) == 1:
                ends: Mapping[str, Attribute] = {"alpha": line.factor, "beta": number}
                return self._as(node, Operator.HARD_SIGMOID, line.values[0], (*line.inner, added), ends)
        return node

    def _as(
        self,
        node: FlowNode,
        operator: Operator,
        data: str,
        inner: Sequence[FlowNode],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> FlowNode:
        """A node in place of one and of those whose results it alone reads."""
        sources = tuple(dict.fromkeys(source for each in (*inner, node) for source in each.sources))
        ordered = tuple(sorted(sources, key=lambda source: source.number))
        return FlowNode(operator, (data,), node.outputs, attributes or {}, ordered)

    def _product(self, node: FlowNode) -> _Product:
        """The factors of a node, through products that it alone reads."""
        if node.operator == Operator.DIVIDE:
            number = self._number(node.inputs[1])
            if not number:
                return _Product(1.0, (node.output,), ())
            found = self._factors(node.inputs[0])
            return found._replace(factor=found.factor / number)
        if node.operator != Operator.MULTIPLY:
            return _Product(1.0, (node.output,), ())
        left, right = map(self._factors, node.inputs)
        return _Product(left.factor * right.factor, left.values + right.values, left.inner + right.inner)

    def _factors(self, name: str) -> _Product:
        number = self._number(name)
        if number is not None:
            return _Product(number, (), ())
        inner = self._inner(name)
        if inner is None or inner.operator not in (Operator.MULTIPLY, Operator.DIVIDE):
            return _Product(1.0, (name,), ())
        found = self._product(inner)
        return found._replace(inner=(*found.inner, inner)) if found.values != (name,) else found

    def _inner(self, name: str) -> FlowNode | None:
        """The node that computes a value, if only one reads it."""
        return self._producers.get(name) if self._uses[name] == 1 else None

    def _number(self, name: str) -> float | None:
        constant = self._constants.get(name)
        return float(constant.item()) if constant is not None and constant.size == 1 else None

    def _sums(self, node: FlowNode | None) -> Iterator[tuple[str, float]]:
        """Return what a node adds a number to, and the number."""
        if node is not None and node.operator == Operator.ADD:
            for data, other in (node.inputs, node.inputs[::-1]):
                number = self._number(other)
                if number is not None:
                    yield data, number

    def _plus(self, node: FlowNode | None, number: float) -> str:
        """Return what a node adds a number to; empty if it does not."""
        return next((data for data, found in self._sums(node) if isclose(found, number, rel_tol=_CLOSE)), "")

    def _divided(self, node: FlowNode) -> FlowNode:
        """A multiplication in place of a division by constants."""
        divisor = self._constants.get(node.inputs[1])
        if node.operator != Operator.DIVIDE or divisor is None or not np.all(divisor):
            return node
        with np.errstate(over="ignore"):
            inverse = self._constant(node, "reciprocal", 1 / divisor.astype(np.float64))
        return replace(node, operator=Operator.MULTIPLY, inputs=(node.inputs[0], inverse))

    def _scaled(self, node: FlowNode) -> Sequence[FlowNode]:
        """A layer with other weights, in place of the product of its result with a constant or one for each channel."""
        constants = [name for name in node.inputs if name in self._constants]
        if node.operator != Operator.MULTIPLY or len(constants) != 1:
            return [node]
        (data,) = (name for name in node.inputs if name not in constants)
        biased = self._inner(data)
        layer = self._inner(self._unbiased(biased)) if biased is not None else None
        if layer is None:
            layer, biased = biased, None
        factors = self._by_channel(layer, self._constants[constants[0]]) if layer is not None else None
        if layer is None or factors is None:
            return [node]
        axis = layer.text("kernel_layout").index("O") if layer.operator in _CONVOLUTIONS else 0
        weights = self._constants[layer.inputs[1]]
        along = factors.reshape([-1 if each == axis else 1 for each in range(weights.ndim)])
        scaled = self._constant(node, "weights", weights * along)
        inputs = (layer.inputs[0], scaled)
        if biased is None:
            return [replace(layer, inputs=inputs, outputs=node.outputs, sources=(*layer.sources, *node.sources))]
        summed = self._value(node, "summed", self._values[layer.output])
        self._uses[summed] = 1
        (name,) = (each for each in biased.inputs if each in self._constants)
        by = factors if biased.operator == Operator.BIAS_ADD else self._constants[constants[0]]
        bias = self._constant(node, "bias", self._constants[name] * by)
        operands = tuple(bias if each == name else summed for each in biased.inputs)
        return [
            replace(layer, inputs=inputs, outputs=(summed,)),
            replace(biased, inputs=operands, outputs=node.outputs, sources=(*biased.sources, *node.sources)),
        ]

    def _shifted(self, node: FlowNode) -> FlowNode:
        """A bias in place of a bias and a sum with a constant for each channel."""
        constants = [name for name in node.inputs if name in self._constants]
        others = [name for name in node.inputs if name not in constants]
        biased = self._inner(others[0]) if len(others) == len(constants) == 1 else None
        summed = self._unbiased(biased) if biased is not None else ""
        layer = self._inner(summed)
        if biased is None or layer is None:
            return node
        (name,) = (each for each in biased.inputs if each in self._constants)
        own: Array | None = self._constants[name]
        if biased.operator == Operator.ADD:
            own = self._by_channel(layer, self._constants[name])
        more = self._by_channel(layer, self._constants[constants[0]])
        if own is None or more is None:
            return node
        bias = self._constant(node, "bias", own.astype(np.float64) + more)
        attributes: Mapping[str, Attribute] = {"axis": self._channel_axis(layer)}
        return FlowNode(Operator.BIAS_ADD, (summed, bias), node.outputs, attributes, (*biased.sources, *node.sources))

    def _unbiased(self, node: FlowNode) -> str:
        """Return what a node adds constants to; empty if it does not."""
        computed = [name for name in node.inputs if name not in self._constants]
        adds = node.operator in (Operator.BIAS_ADD, Operator.ADD) and len(computed) == 1
        return computed[0] if adds and self._values[computed[0]].shape == self._values[node.output].shape else ""

    def _by_channel(self, layer: FlowNode, constant: Array) -> Array | None:
        """The factors of a layer's channels, if a constant that its result is multiplied with says no more."""
        weighted = layer.operator in (*_CONVOLUTIONS, Operator.DENSE) and layer.inputs[1] in self._constants
        value = self._values[layer.output]
        if not weighted or constant.ndim > value.rank or value.element_type.kind != "f":
            return None
        if layer.operator == Operator.CONV2D_TRANSPOSE and layer.integer("groups") != 1:
            return None
        axis = self._channel_axis(layer)
        whole = constant.reshape((1,) * (value.rank - constant.ndim) + constant.shape)
        if any(length != 1 and each != axis for each, length in enumerate(whole.shape)):
            return None
        return np.broadcast_to(whole.reshape(-1), value.shape[axis])

    def _channel_axis(self, layer: FlowNode) -> int:
        if layer.operator in _CONVOLUTIONS:
            return layer.text("data_layout").index("C")
        return self._values[layer.output].rank - 1

    def _subtracted(self, node: FlowNode) -> Iterator[FlowNode]:
        left, right = node.inputs
        if right in self._constants:
            negative = self._constant(node, "negative", -self._constants[right])
        else:
            minus = self._constant(node, "minus one", np.array([-1.0]))
            negative = self._value(node, "negative", self._values[right])
            yield FlowNode(Operator.MULTIPLY, (right, minus), (negative,), {}, node.sources)
        summands = (negative, left) if left in self._constants else (left, negative)
        yield replace(node, operator=Operator.ADD, inputs=summands)

    def _prelu(self, node: FlowNode) -> Iterator[FlowNode]:
        data, slopes = node.inputs
        number = self._number(slopes)
        if number is not None:
            yield FlowNode(Operator.LEAKY_RELU, (data,), node.outputs, {"alpha": number}, node.sources)
            return
        value = self._values[node.output]
        above, below, scaled = (self._value(node, what, value) for what in ("above 0", "below 0", "sloping"))
        yield FlowNode(Operator.RELU, (data,), (above,), {}, node.sources)
        yield FlowNode(Operator.CLIP, (data,), (below,), {"a_min": -inf, "a_max": 0.0}, node.sources)
        yield FlowNode(Operator.MULTIPLY, (below, slopes), (scaled,), {}, node.sources)
        yield FlowNode(Operator.ADD, (above, scaled), node.outputs, {}, node.sources)

    def _follows_convolution(self, node: FlowNode) -> bool:
        """Return whether a batch normalisation can be part of the layer before it, or cannot be computed here."""
        if any(name not in self._constants for name in node.inputs[1:]):
            return True
        before = self._inner(node.inputs[0])
        if before is not None and before.operator in (Operator.BIAS_ADD, Operator.ADD):
            before = self._inner(self._unbiased(before))
        return before is not None and before.operator in _CONVOLUTIONS

    def _normalised(self, node: FlowNode) -> Iterator[FlowNode]:
        value = self._values[node.output]
        axis = node.integer("axis") % value.rank
        shape = [-1 if each == axis else 1 for each in range(value.rank)]
        gamma, beta, mean, variance = (self._constants[name].astype(np.float64) for name in node.inputs[1:])
        gain = gamma / np.sqrt(variance + node.real("epsilon"))
        gains = self._constant(node, "gain", gain.reshape(shape))
        offsets = self._constant(node, "offset", (beta - mean * gain).reshape(shape))
        scaled = self._value(node, "scaled", value)
        yield FlowNode(Operator.MULTIPLY, (node.inputs[0], gains), (scaled,), {}, node.sources)
        yield FlowNode(Operator.ADD, (scaled, offsets), node.outputs, {}, node.sources)

    def _constant(self, node: FlowNode, what: str, array: Array) -> str:
        own = self._values[node.output].element_type
        name = self._value(node, what, FlowValue(array.shape, own))
        self._constants[name] = np.ascontiguousarray(array).astype(own)
        return name

    def _value(self, node: FlowNode, what: str, value: FlowValue) -> str:
        name, number = f"{node.output}/{what}", 1
        while name in self._values:
            name, number = f"{node.output}/{what} {number}", number + 1
        self._values[name] = value
        return name
