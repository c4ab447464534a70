"""Random models of TFLite: the operators with the inputs, types and options that they may have, and their limits.

LiteRT runs each operator as soon as it is drawn, by its reference kernels if it has them; what it refuses is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from tflite import ActivationFunctionType

from nnhal.arrays import Array
from tests.support.random_models import Case, Drawing, Limit, Makers, Value, difference
from tests.support.tflite_files import CODES, Options, Spec, TfliteFile
from tests.support.tflite_operators import OPTIMISED, REFERENCE, by_any_kernel, by_litert

FLOAT = (np.float32,)
BYTES = (np.int8, np.uint8)
QUANTISED = (*BYTES, np.int16)
INTEGERS = (np.int32, np.int64)
NUMBERS = (np.float32, np.float32, *QUANTISED, *INTEGERS)
ANY = (*NUMBERS, np.bool_)
BUILTIN = (0.0078125, 0.05, 0.25, 0.0123)
"""Scales of inputs."""

_DEPTHWISE = "DEPTHWISE_CONV_2D"
"""The operator whose optimised kernel in LiteRT ends the process if it has no bias."""
_WINDOWS = ("CONV_2D", _DEPTHWISE, "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
_WITHOUT_NAN = {*_WINDOWS, "ARG_MAX", "ARG_MIN", "MAXIMUM", "MINIMUM", "REDUCE_MAX", "REDUCE_MIN"}
"""Operators of which LiteRT loses a NaN, and nnhal keeps it."""
_FINITE = {"CAST", "FLOOR_DIV", "LOCAL_RESPONSE_NORMALIZATION", "QUANTIZE", "RESIZE_BILINEAR"}
"""Operators of whose infinities LiteRT makes what nnhal does not, as docs/reference/tflite_coverage.md says."""
_LIMITED = {*_WINDOWS, "ADD", "ADD_N", "DIV", "FULLY_CONNECTED", "MUL", "SUB", "TRANSPOSE_CONV"}
"""Operators that limit their results to finite numbers in LiteRT."""
_VAST = 1e18
"""A number whose products with others may be beyond those of a float."""
_VARIABLE = "s"
"""The letter that names of variables begin with."""
Out = tuple[Any, float, int]
"""The type of an output, with its scale and zero point."""


Branches = Callable[[TfliteFile, bool], Options]
"""Adds the subgraphs of an operator to a file, with open axes or without, and returns its options."""


class Node(NamedTuple):
    """An operator of a model that is being drawn."""

    code: str
    inputs: Sequence[str]
    outputs: Sequence[Value]
    options: Options | Branches | None
    version: int

    def __str__(self) -> str:
        made = ", ".join(f"{v.name}:{v.array.dtype}{list(v.array.shape)}{_scales(v)}" for v in self.outputs)
        return f"{made} = {self.code}({', '.join(self.inputs)}) {self.options or ''}"


def _scales(value: Value) -> str:
    return f" x {value.scale} from {value.zero_point}" if np.size(value.scale) else ""


def _spec(value: Value, is_open: bool = False) -> Spec:
    shape = value.array.shape
    signature = (-1,) * len(shape) if is_open else value.signature
    return Spec(shape, value.array.dtype, value.scale, value.zero_point, value.axis, signature)


def written(
    nodes: Sequence[Node], inputs: Sequence[Value], constants: Sequence[Value], outputs: Sequence[str]
) -> bytes:
    """Write a model."""
    file = TfliteFile(versions={node.code: node.version for node in nodes})
    places = {"": -1}
    is_open = any(value.signature for value in inputs)
    options = [node.options(file, is_open) if callable(node.options) else node.options for node in nodes]
    for value in inputs:
        places[value.name] = file.input(value.name, _spec(value))
    for value in constants:
        if value.name[0] == _VARIABLE:
            places[value.name] = file.variable(value.name, _spec(value))
        else:
            places[value.name] = file.constant(value.array, _spec(value), value.name)
    for node, chosen in zip(nodes, options, strict=True):
        made = file.operator(
            node.code,
            [places[name] for name in node.inputs],
            {value.name: _spec(value, is_open) for value in node.outputs},
            chosen,
        )
        places |= dict(zip((value.name for value in node.outputs), made, strict=True))
    return file.build(*(places[name] for name in outputs))


@dataclass
class TfliteDrawing(Drawing):
    """A model of TFLite that is being drawn."""

    steps: list[Node] = field(default_factory=list)
    given: dict[str, Value] = field(default_factory=dict)
    fixed: dict[str, Value] = field(default_factory=dict)

    def array(self, shape: Sequence[int], kind: Any = np.float32, low: float = -4, high: float = 4) -> Array:
        """Draw values: those of quantised types are all that there are."""
        if np.dtype(kind) in map(np.dtype, QUANTISED) and (low, high) == (-4, 4):
            low, high = np.iinfo(kind).min, np.iinfo(kind).max
        return super().array(shape, kind, low, high)

    def value(self, shape: Sequence[int], kind: Any) -> Array:
        """Draw values as ``array`` does, in one of eight of floats some of which are extremes."""
        return super().value(shape, kind) if np.dtype(kind) == np.float32 else self.array(shape, kind)

    def quantised(self, kind: Any) -> tuple[float, int] | tuple[tuple[()], int]:
        """Draw a scale and zero point for a type."""
        element = np.dtype(kind)
        if element not in map(np.dtype, QUANTISED):
            return (), 0
        zero = 0 if element == np.int16 else self.one_of(3, 0, -5) + (128 if element == np.uint8 else 0)
        return self.one_of(*BUILTIN) / (256 if element == np.int16 else 1), zero

    def constant(self, array: Any, kind: Any = None, scale: Any = None, zero_point: int = 0, axis: int = 0) -> Value:
        """Add a constant; a scale of None is drawn if the type is quantised."""
        values = np.asarray(array, kind)
        scale, zero_point = self.quantised(values.dtype) if scale is None else (scale, zero_point)
        value = Value(f"c{len(self.fixed)}", values, 0, scale, zero_point, axis)
        self.fixed[value.name] = value
        return value

    def input(self, array: Array, scale: Any = None, zero_point: int = 0) -> Value:
        """Add an input of the model, some of whose axes may be open."""
        scale, zero_point = self.quantised(array.dtype) if scale is None else (scale, zero_point)
        opened = self.number(0, 3) == 3 and array.ndim
        signature = [-1 if opened and self.chance() else length for length in array.shape]
        value = Value(f"x{len(self.given)}", array, 0, scale, zero_point, 0, signature if opened else ())
        self.given[value.name] = value
        return value

    def alike(self, value: Value, array: Array) -> Value:
        """Add an input or a constant with the quantisation of a value."""
        add = self.constant if self.number(0, 2) == 2 else self.input
        return add(array, scale=value.scale, zero_point=value.zero_point)

    def variable(self, shape: Sequence[int]) -> Value:
        """Add a variable, whose elements are 0 before a run."""
        name = f"{_VARIABLE}{len(self.fixed)}"
        self.fixed[name] = Value(name, np.zeros(shape, np.float32))
        return self.fixed[name]

    def indexes(self, values: Any, kind: Any = np.int32) -> Value:
        """Add what an operator takes as indices, axes or lengths: mostly a constant."""
        array = np.asarray(values, kind)
        return self.input(array) if self.number(0, 5) == 5 else self.constant(array)

    def operator(
        self,
        code: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | Out | Any],
        limit: Limit = Limit.EXACT,
        options: Options | Branches | None = None,
        version: int = 1,
    ) -> None:
        """Add an operator, unless LiteRT refuses it. An output is as a value, as stated, or of a type."""
        names = [value.name if value else "" for value in inputs]
        known = {value.name: value for value in inputs if value is not None}
        made = []
        for n, like in enumerate(outputs):
            if isinstance(like, Value):
                like = (like.array.dtype, like.scale, like.zero_point)
            kind, scale, zero_point = like if isinstance(like, tuple) else (like, *self.quantised(like))
            made.append(Value(f"v{len(self.steps)}_{n}", np.zeros((), kind), 0, scale, zero_point))
        node = Node(code, names, made, options, version)
        given = [v for v in known.values() if v.name not in self.fixed]
        content = written([node], given, [v for v in known.values() if v.name in self.fixed], [v.name for v in made])
        arrays = {value.name: value.array for value in given}
        results = run_plainly(content, arrays)
        others = results if code == _DEPTHWISE else run_plainly(content, arrays, OPTIMISED)
        if results is None or others is None or any(r.size > 1 << 14 or r.ndim > 6 for r in results):
            return
        if code in _WINDOWS and not results[0].size and any(value.signature for value in given):
            return  # a window that is longer than an open axis is refused
        read = [value.array for value in known.values() if value.array.dtype.kind == "f"]
        if code in _WITHOUT_NAN and any(np.isnan(array).any() for array in read):
            return
        if limit == Limit.SUM and any((np.isfinite(array) & (abs(array) > _VAST)).any() for array in read):
            return  # sums that overflow are nobody's
        if code in _FINITE and not all(np.isfinite(array).all() for array in read):
            return
        carried = sum(value.epsilons for value in known.values())
        done = []
        for value, result in zip(made, results, strict=True):
            if result.dtype != value.array.dtype:
                return
            floating = result.dtype.kind == "f"
            steps = int(bool(np.size(value.scale) and (limit != Limit.EXACT or carried)))
            epsilons = 2 * carried + limit.value if floating else steps
            full = code in _LIMITED and floating and bool((abs(result) == np.finfo(result.dtype).max).any())
            done.append(Value(value.name, result, epsilons, value.scale, value.zero_point, is_limited=full))
        if any(difference(o, v.array, v.epsilons) for o, v in zip(others, done, strict=True)):
            return  # as LiteRT's own kernels do
        self.steps.append(node._replace(outputs=done))
        self.values += done
        self.read.update(known)

    def case(self) -> Case | None:
        """Return the model; None if it has no operator, or if LiteRT refuses it as a whole."""
        if not self.steps:
            return None
        outputs = [value for value in self.values if value.name not in self.read or self.number(0, 3) == 3]
        used = {name for node in self.steps for name in node.inputs}
        inputs = [value for value in self.given.values() if value.name in used]
        names = [value.name for value in outputs]
        fixed = [value for value in self.fixed.values() if value.name in used]
        content = written(self.steps, inputs, fixed, names)
        given = {value.name: value.array for value in inputs}
        results = run_plainly(
            content, given, REFERENCE if any(node.code == _DEPTHWISE for node in self.steps) else None
        )
        if results is None:
            return None
        heads = [f"{v.name}: {v.array.dtype}{list(v.array.shape)}{_scales(v)} {v.signature or ''}" for v in inputs]
        consts = [f"{v.name} = {v.array.dtype}{list(v.array.shape)}{_scales(v)} {v.array.tolist()}" for v in fixed]
        text = "\n".join([*heads, *consts, *map(str, self.steps)])
        limited = {value.name for value in outputs if value.is_limited}
        epsilons = {value.name: value.epsilons for value in outputs}
        return Case(content, given, dict(zip(names, results, strict=True)), epsilons, text, limited)


def run_plainly(content: bytes, inputs: Mapping[str, Array], resolver: Any = None) -> list[Array] | None:
    """Run a model by LiteRT; None if it refuses."""
    with suppress(ValueError, RuntimeError):
        return by_litert(content, inputs, resolver) if resolver else by_any_kernel(content, inputs)
    return None


MAKERS = Makers()
_NONE = ActivationFunctionType.NONE
_ACTIVATIONS = (0, 0, 1, 2, 3)


def _activation(d: Any) -> dict[str, Any]:
    return {"FusedActivationFunction": d.one_of(*_ACTIVATIONS)}


def _unary(
    code: str,
    kinds: Any,
    limit: Limit = Limit.FUNCTION,
    exact: bool = True,
    options: str = "",
    out: Mapping[Any, tuple[float, int]] | None = None,
    same: bool = False,
    least: int = 0,
    **fields: Any,
) -> None:
    """A function of one value; ``out`` has the quantisation that a type's results must have."""

    @MAKERS.add(code)
    def make(d: Any) -> None:
        x = d.pick(kinds, least, exact=exact)
        if least and not x.array.size:
            return  # else LiteRT ends the process
        kind = x.array.dtype
        fixed = (out or {}).get(kind.type)
        made = x if same else (kind, *fixed) if fixed else kind
        chosen = {key: d.one_of(*choices) for key, choices in fields.items()}
        d.operator(code, [x], [made], limit, (options, chosen) if options else None)


_I16 = (1 / 32768, 0)
for _code in ("COS", "SIN", "ROUND", "CEIL", "FLOOR"):
    _unary(_code, FLOAT, Limit.FUNCTION if _code in ("COS", "SIN") else Limit.EXACT)
for _code in ("SQRT", "RSQRT", "LOG", "EXP", "ELU"):
    _unary(_code, (np.float32, np.float32, np.int8))
_unary("SQUARE", FLOAT, Limit.ROUNDED, False)
_unary("SIGN", (np.float32, np.int32), Limit.EXACT)
_unary("ABS", (np.float32, np.int32, np.int8, np.int16), Limit.ROUNDED, False)
_unary("NEG", (np.float32, *INTEGERS), Limit.EXACT, False)
_unary("GELU", (np.float32, *BYTES), options="GeluOptions", Approximate=(False, True))
_unary("HARD_SWISH", (np.float32, *BYTES))
_unary("LEAKY_RELU", (np.float32, *QUANTISED), Limit.ROUNDED, options="LeakyReluOptions", Alpha=(0.25, 2.0, -0.5))
_unary("LOGISTIC", (np.float32, *QUANTISED), out={np.int8: (1 / 256, -128), np.uint8: (1 / 256, 0), np.int16: _I16})
_unary("TANH", (np.float32, *QUANTISED), out={np.int8: (1 / 128, 0), np.uint8: (1 / 128, 128), np.int16: _I16})
_unary(
    "SOFTMAX",
    (np.float32, *QUANTISED),
    options="SoftmaxOptions",
    out={np.int8: (1 / 256, -128), np.uint8: (1 / 256, 0), np.int16: _I16},
    least=1,
    Beta=(1.0, 0.5),
)
_unary("LOG_SOFTMAX", (np.float32, *BYTES), out={np.int8: (16 / 256, 127), np.uint8: (16 / 256, 255)}, least=1)
_unary("L2_NORMALIZATION", (np.float32, *BYTES), out={np.int8: (1 / 128, 0), np.uint8: (1 / 128, 128)}, least=1)
for _code in ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"):
    _unary(_code, (np.float32, *BYTES), Limit.ROUNDED)
_unary("LOGICAL_NOT", (np.bool_,), Limit.EXACT)
_unary("ZEROS_LIKE", (np.float32, *INTEGERS), Limit.EXACT)


def _binary(
    code: str,
    kinds: Any,
    limit: Limit = Limit.ROUNDED,
    exact: bool = True,
    options: str = "",
    kind: Any = None,
    fused: bool = False,
    same: bool = False,
) -> None:
    """A function of two values that are broadcast."""

    @MAKERS.add(code)
    def make(d: Any) -> None:
        left = d.pick(kinds, exact=exact)
        element = left.array.dtype
        shape = [1 if d.number(0, 3) == 3 else length for length in left.array.shape]
        shape = shape[d.number(0, len(shape)) if d.number(0, 2) == 2 else 0 :]
        if code == "ATAN2":  # else LiteRT reads beyond the shorter one
            shape = list(left.array.shape)
        array = d.array(shape, element)
        if code in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
            array[array == left.zero_point] += 1
        if code == "RIGHT_SHIFT":
            array = np.abs(array)
        if code == "POW" and element.kind == "i":
            array = np.abs(array)
        right = (
            d.alike(left, array) if same or code == "DIV" or element.kind not in "iu" or d.chance() else d.fresh(array)
        )
        if code not in ("DIV", "FLOOR_DIV", "FLOOR_MOD", "POW", "RIGHT_SHIFT") and d.chance():
            left, right = right, left
        made = kind or (left if same else element)
        fields = _activation(d) if fused else {}
        limit_here = Limit.EXACT if element.kind == "i" and element.itemsize > 2 else limit
        d.operator(code, [left, right], [made], limit_here, (options, fields) if options else None)


_binary("ADD", NUMBERS, options="AddOptions", fused=True)
_binary("SUB", NUMBERS, options="SubOptions", fused=True)
_binary("MUL", NUMBERS, options="MulOptions", fused=True)
_binary("DIV", (np.float32, np.int32, np.uint8), options="DivOptions", fused=True)
_binary("POW", (np.float32, np.int32), Limit.FUNCTION)
_binary("SQUARED_DIFFERENCE", (np.float32, np.int32, np.int8))
_binary("FLOOR_DIV", (np.float32, np.int32), Limit.EXACT)
_binary("FLOOR_MOD", (np.float32, *INTEGERS), Limit.EXACT)
for _code in ("MAXIMUM", "MINIMUM"):
    _binary(_code, NUMBERS, Limit.EXACT, same=True)
for _code in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
    _binary(_code, ANY if "EQUAL" in _code[-9:] and "_" not in _code[:5] else NUMBERS, Limit.EXACT, kind=np.bool_)
for _code in ("LOGICAL_AND", "LOGICAL_OR"):
    _binary(_code, (np.bool_,), Limit.EXACT)
_binary("ATAN2", FLOAT, Limit.FUNCTION)
_binary("BITWISE_XOR", (np.int32,), Limit.EXACT)
_binary("RIGHT_SHIFT", (np.int32,), Limit.EXACT)
_binary("PRELU", (np.float32, *BYTES))


def _reduce(code: str, kinds: Any, limit: Limit) -> None:
    @MAKERS.add(code)
    def make(d: Any) -> None:
        x = d.pick(kinds, 1, exact=True)
        if not x.array.size and np.size(x.scale) and code in ("SUM", "REDUCE_PROD"):
            return  # LiteRT leaves the result as its memory was
        axes = d.indexes(d.axes(x.array.ndim, 1))
        made = x if code in ("REDUCE_MAX", "REDUCE_MIN") or d.chance() else x.array.dtype
        d.operator(code, [x, axes], [made], limit, ("ReducerOptions", {"KeepDims": d.chance()}))


_reduce("MEAN", (np.float32, *QUANTISED, *INTEGERS), Limit.SUM)
_reduce("SUM", (np.float32, *QUANTISED, *INTEGERS), Limit.SUM)
_reduce("REDUCE_PROD", (np.float32, *INTEGERS), Limit.SUM)
for _code in ("REDUCE_MAX", "REDUCE_MIN"):
    _reduce(_code, NUMBERS, Limit.EXACT)
for _code in ("REDUCE_ANY", "REDUCE_ALL"):
    _reduce(_code, (np.bool_,), Limit.EXACT)


@MAKERS.each("ARG_MAX", "ARG_MIN")
def _arg(name: str, d: Any) -> None:
    x = d.pick((np.float32, *BYTES, np.int32), 1, exact=True)
    kind = d.one_of(np.int32, np.int64)
    options = (f"Arg{name[4:].capitalize()}Options", {"OutputType": CODES[np.dtype(kind)]})
    d.operator(name, [x, d.indexes(d.axis(x.array.ndim))], [kind], options=options)


@MAKERS.add("CUMSUM")
def _cumsum(d: Any) -> None:
    x = d.pick((np.float32, *INTEGERS), 1, exact=True)
    options = ("CumsumOptions", {"Exclusive": d.chance(), "Reverse": d.chance()})
    d.operator("CUMSUM", [x, d.indexes(d.axis(x.array.ndim))], [x], Limit.SUM, options)


@MAKERS.add("TOPK_V2")
def _topk(d: Any) -> None:
    x = d.pick((np.float32, *QUANTISED, *INTEGERS), 1, exact=True)
    k = d.indexes(d.number(min(1, x.array.shape[-1]), x.array.shape[-1]))
    d.operator("TOPK_V2", [x, k], [x, np.int32])


@MAKERS.add("RESHAPE")
def _reshape(d: Any) -> None:
    x = d.pick(ANY, most=5)
    size, target = x.array.size, []
    for _ in range(d.number(0, 4)):
        length = d.one_of(*[n for n in range(1, size + 1) if size % n == 0] or [0])
        target.append(length)
        size = size // length if length else 0
    target.append(size)
    if d.chance() and 0 not in target:
        target[d.number(0, len(target) - 1)] = -1
    way = d.number(0, 2)
    if way == 2:
        d.operator("RESHAPE", [x], [x], options=("ReshapeOptions", {"NewShape": target}))
    else:
        d.operator("RESHAPE", [x, d.indexes(target)], [x])


@MAKERS.add("TRANSPOSE")
def _transpose(d: Any) -> None:
    x = d.pick(ANY, 1, 5)
    d.operator("TRANSPOSE", [x, d.indexes(d.permutation(x.array.ndim))], [x])


@MAKERS.add("SQUEEZE")
def _squeeze(d: Any) -> None:
    x = d.pick(ANY, 1)
    ones = [n - d.one_of(0, x.array.ndim) for n, length in enumerate(x.array.shape) if length == 1]
    d.operator("SQUEEZE", [x], [x], options=("SqueezeOptions", {"SqueezeDims": ones[: d.number(0, len(ones))]}))


@MAKERS.add("EXPAND_DIMS")
def _expand_dims(d: Any) -> None:
    x = d.pick(ANY)
    d.operator("EXPAND_DIMS", [x, d.indexes(d.axis(x.array.ndim + 1))], [x])


@MAKERS.add("CONCATENATION")
def _concatenation(d: Any) -> None:
    x = d.pick(ANY, 1)
    axis = d.axis(x.array.ndim)
    others = []
    for _ in range(d.number(0, 2)):
        shape = list(x.array.shape)
        shape[axis] = d.number(1, 3)
        array = d.array(shape, x.array.dtype)
        others.append(d.fresh(array) if x.array.dtype in (np.int8, np.uint8) and d.chance() else d.alike(x, array))
    given = [x, *others]
    made = x.array.dtype if any(v.scale != x.scale for v in others) and x.array.dtype == np.uint8 else x
    options = ("ConcatenationOptions", {"Axis": axis})
    d.operator("CONCATENATION", given, [made], Limit.ROUNDED if np.size(x.scale) else Limit.EXACT, options)


@MAKERS.add("PACK")
def _pack(d: Any) -> None:
    x = d.pick(ANY, 0, 3)
    others = [d.alike(x, d.array(x.array.shape, x.array.dtype)) for _ in range(d.number(0, 2))]
    options = ("PackOptions", {"ValuesCount": 1 + len(others), "Axis": d.axis(x.array.ndim + 1)})
    d.operator("PACK", [x, *others], [x], options=options)


@MAKERS.add("UNPACK")
def _unpack(d: Any) -> None:
    x = d.pick(ANY, 1)
    axis = d.axis(x.array.ndim)
    count = x.array.shape[axis]
    if count:
        d.operator("UNPACK", [x], [x] * count, options=("UnpackOptions", {"Num": count, "Axis": axis}))


@MAKERS.add("SPLIT")
def _split(d: Any) -> None:
    x = d.pick((np.float32, *QUANTISED, np.int32), 1)
    axis = d.axis(x.array.ndim)
    count = d.one_of(*[n for n in (1, 2, 3, 4) if x.array.shape[axis] % n == 0])
    d.operator("SPLIT", [d.indexes(axis), x], [x] * count, options=("SplitOptions", {"NumSplits": count}))


@MAKERS.add("SPLIT_V")
def _split_v(d: Any) -> None:
    x = d.pick((np.float32, *QUANTISED, *INTEGERS), 1)
    axis = d.axis(x.array.ndim)
    first = d.number(0, x.array.shape[axis])
    sizes = [first, -1 if d.chance() else x.array.shape[axis] - first]
    d.operator("SPLIT_V", [x, d.indexes(sizes), d.indexes(axis)], [x, x], options=("SplitVOptions", {"NumSplits": 2}))


@MAKERS.add("SLICE")
def _slice(d: Any) -> None:
    x = d.pick(ANY, 1)
    begins = [d.number(0, max(0, length - 1)) for length in x.array.shape]
    sizes = [d.one_of(-1, d.number(0, n - b)) for n, b in zip(x.array.shape, begins, strict=True)]
    kind = d.one_of(*INTEGERS)
    d.operator("SLICE", [x, d.indexes(begins, kind), d.indexes(sizes, kind)], [x])


@MAKERS.add("STRIDED_SLICE")
def _strided_slice(d: Any) -> None:
    x = d.pick(ANY, 1)
    rank = d.number(1, x.array.ndim)
    begins = [d.number(-6, 6) for _ in range(rank)]
    ends = [d.number(-6, 6) for _ in range(rank)]
    strides = [d.one_of(1, 1, 2, -1, -2) for _ in range(rank)]
    masks = {key: d.number(0, 2**rank - 1) for key in ("BeginMask", "EndMask") if d.chance()}
    if d.number(0, 3) == 3:
        masks["ShrinkAxisMask"] = d.number(0, 2**rank - 1)
        strides = [abs(stride) for stride in strides]
    elif d.number(0, 5) == 5:
        masks[d.one_of("NewAxisMask", "EllipsisMask")] = d.one_of(1, 2)
    given = [x, *(d.indexes(v) for v in (begins, ends, strides))]
    d.operator("STRIDED_SLICE", given, [x], options=("StridedSliceOptions", masks))


def _pads(d: Any, x: Value, most: int = 2) -> Any:
    kind = d.one_of(*INTEGERS)
    return d.indexes([[d.number(0, most), d.number(0, most)] for _ in x.array.shape], kind)


@MAKERS.add("PAD")
def _pad(d: Any) -> None:
    x = d.pick(NUMBERS, 1)
    d.operator("PAD", [x, _pads(d, x)], [x], options=("PadOptions", {}))


@MAKERS.add("PADV2")
def _pad_v2(d: Any) -> None:
    x = d.pick(NUMBERS, 1)
    d.operator("PADV2", [x, _pads(d, x), d.alike(x, d.array((), x.array.dtype))], [x])


@MAKERS.add("MIRROR_PAD")
def _mirror_pad(d: Any) -> None:
    x = d.pick((np.float32, np.int8, np.int32), 1)
    mode = d.number(0, 1)
    most = min(x.array.shape, default=0) - (0 if mode else 1)
    if most > 0:
        d.operator("MIRROR_PAD", [x, _pads(d, x, min(most, 2))], [x], options=("MirrorPadOptions", {"Mode": mode}))


@MAKERS.add("TILE")
def _tile(d: Any) -> None:
    x = d.pick((np.float32, np.int8, *INTEGERS, np.bool_), 1)
    times = [d.number(0 if d.empties else 1, 2) for _ in x.array.shape]
    d.operator("TILE", [x, d.indexes(times, d.one_of(*INTEGERS))], [x])


@MAKERS.add("BROADCAST_TO")
def _broadcast_to(d: Any) -> None:
    x = d.pick(NUMBERS)
    shape = [d.number(1, 3) if length == 1 else length for length in x.array.shape]
    extra = [d.number(1, 2) for _ in range(d.number(0, max(0, 4 - len(shape))))]
    d.operator("BROADCAST_TO", [x, d.indexes([*extra, *shape], d.one_of(*INTEGERS))], [x], version=2)


@MAKERS.add("GATHER")
def _gather(d: Any) -> None:
    x = d.pick(ANY, 1)
    batch = d.number(0, min(1, x.array.ndim - 1))
    axis = d.number(batch, x.array.ndim - 1)
    if not x.array.shape[axis]:
        return
    shape = (*x.array.shape[:batch], *d.shape(0, 2, 3))
    indexes = d.fresh(d.array(shape, d.one_of(*INTEGERS), 0, x.array.shape[axis] - 1))
    options = {"Axis": axis - (x.array.ndim if d.chance() else 0), "BatchDims": batch}
    d.operator("GATHER", [x, indexes], [x], options=("GatherOptions", options))


@MAKERS.add("GATHER_ND")
def _gather_nd(d: Any) -> None:
    x = d.pick((np.float32, np.int8, np.uint8, *INTEGERS), 1)
    if x.array.size:
        depth = d.number(1, x.array.ndim)
        kind = d.one_of(*INTEGERS)
        rows = [d.array((2, 2), kind, 0, length - 1) for length in x.array.shape[:depth]]
        d.operator("GATHER_ND", [x, d.fresh(np.stack(rows, axis=-1))], [x])


@MAKERS.add("REVERSE_V2")
def _reverse(d: Any) -> None:
    x = d.pick(NUMBERS, 1)
    if x.array.size:  # else LiteRT ends the process
        d.operator("REVERSE_V2", [x, d.indexes([d.axis(x.array.ndim)])], [x])


@MAKERS.add("REVERSE_SEQUENCE")
def _reverse_sequence(d: Any) -> None:
    x = d.pick((np.float32, *INTEGERS), 2)
    batch = d.number(0, 1)
    lengths = d.fresh(d.array((x.array.shape[batch],), np.int32, 1, max(1, x.array.shape[1 - batch])))
    options = ("ReverseSequenceOptions", {"SeqDim": 1 - batch, "BatchDim": batch})
    if x.array.size:  # else LiteRT ends the process
        d.operator("REVERSE_SEQUENCE", [x, lengths], [x], options=options)


def _blocks(code: str, options: str) -> None:
    @MAKERS.add(code)
    def make(d: Any) -> None:
        channels, side = (4 * d.number(1, 2), d.number(1, 3)) if code[0] == "D" else (d.number(1, 3), 2)
        shape = (d.number(1, 2), 2 * side, 2 * d.number(1, 2), channels)
        x = d.fresh(d.array(shape, d.one_of(np.float32, *BYTES, np.int32)))
        d.operator(code, [x], [x], options=(options, {"BlockSize": 2}))


_blocks("DEPTH_TO_SPACE", "DepthToSpaceOptions")
_blocks("SPACE_TO_DEPTH", "SpaceToDepthOptions")


@MAKERS.add("SPACE_TO_BATCH_ND")
def _space_to_batch(d: Any) -> None:
    rank = d.one_of(2, 2, 1)
    blocks = [d.number(1, 2) for _ in range(rank)]
    pads = [[d.number(0, 1) * block, d.number(0, 1) * block] for block in blocks]
    shape = (d.number(1, 2), *(block * d.number(1, 3) for block in blocks), d.number(1, 3))
    x = d.fresh(d.array(shape, d.one_of(np.float32, *BYTES, np.int32)))
    d.operator("SPACE_TO_BATCH_ND", [x, d.indexes(blocks), d.indexes(pads)], [x])


@MAKERS.add("BATCH_TO_SPACE_ND")
def _batch_to_space(d: Any) -> None:
    rank = d.one_of(2, 2, 1)
    blocks = [d.number(1, 2) for _ in range(rank)]
    crops = [[d.number(0, 1), d.number(0, 1)] for _ in blocks]
    shape = (d.number(1, 2) * int(np.prod(blocks)), *(d.number(2, 3) for _ in blocks), d.number(1, 3))
    x = d.fresh(d.array(shape, d.one_of(np.float32, *BYTES, np.int32)))
    d.operator("BATCH_TO_SPACE_ND", [x, d.indexes(blocks), d.indexes(crops)], [x])


@MAKERS.each("SELECT", "SELECT_V2")
def _select(name: str, d: Any) -> None:
    x = d.pick(ANY)
    other = d.alike(x, d.array(x.array.shape, x.array.dtype))
    shape = x.array.shape if name == "SELECT" else [n if d.chance() else 1 for n in x.array.shape]
    shape = x.array.shape[:1] if name == "SELECT" and d.number(0, 3) == 3 else shape
    d.operator(name, [d.fresh(d.array(shape, np.bool_)), x, other], [x])


@MAKERS.add("WHERE")
def _where(d: Any) -> None:
    d.operator("WHERE", [d.pick((np.bool_,), 1)], [np.int64])


@MAKERS.add("FILL")
def _fill(d: Any) -> None:
    value = d.fresh(d.array((), d.one_of(*ANY)))
    d.operator("FILL", [d.indexes(d.shape(0), d.one_of(*INTEGERS)), value], [value])


@MAKERS.add("RANGE")
def _range(d: Any) -> None:
    kind = d.one_of(np.float32, *INTEGERS)
    ends = [d.fresh(np.asarray(v, kind)) for v in (d.number(-3, 3), d.number(4, 9), d.one_of(1, 2))]
    d.operator("RANGE", ends, [kind])


@MAKERS.add("SHAPE")
def _shape_of(d: Any) -> None:
    kind = d.one_of(*INTEGERS)
    d.operator("SHAPE", [d.pick(ANY)], [kind], options=("ShapeOptions", {"OutType": CODES[np.dtype(kind)]}))


@MAKERS.add("RANK")
def _rank(d: Any) -> None:
    d.operator("RANK", [d.pick(ANY)], [np.int32])


@MAKERS.add("ONE_HOT")
def _one_hot(d: Any) -> None:
    indexes = d.fresh(d.array(d.shape(0, 2, 4), d.one_of(*INTEGERS), -2, 5))
    kind = d.one_of(np.float32, np.int32, np.int64, np.bool_)
    ends = [d.fresh(d.array((), kind)) for _ in range(2)]
    options = ("OneHotOptions", {"Axis": d.one_of(-1, *range(indexes.array.ndim + 1))})
    d.operator("ONE_HOT", [indexes, d.indexes(d.number(1, 4)), *ends], [kind], options=options)


@MAKERS.add("SCATTER_ND")
def _scatter_nd(d: Any) -> None:
    updates = d.fresh(d.array((2, 3), d.one_of(np.float32, *INTEGERS)))
    rows = d.fresh(d.array((2, 1), np.int32, 0, 3))
    d.operator("SCATTER_ND", [rows, updates, d.indexes([4, 3])], [updates], Limit.ROUNDED)


@MAKERS.add("CAST")
def _cast(d: Any) -> None:
    x = d.pick((np.float32, *INTEGERS, np.bool_), exact=True)
    kind = d.one_of(np.float32, *INTEGERS, np.bool_, np.float16)
    codes = {"InDataType": CODES[x.array.dtype], "OutDataType": CODES[np.dtype(kind)]}
    d.operator("CAST", [x], [kind], options=("CastOptions", codes))


@MAKERS.add("QUANTIZE")
def _quantize(d: Any) -> None:
    x = d.pick((np.float32, np.float32, *QUANTISED), exact=True)
    d.operator("QUANTIZE", [x], [d.one_of(*QUANTISED)], Limit.ROUNDED)


@MAKERS.add("DEQUANTIZE")
def _dequantize(d: Any) -> None:
    x = d.pick((*QUANTISED, np.float16), exact=True)
    d.operator("DEQUANTIZE", [x], [np.float32], Limit.ROUNDED)


def _window(d: Any) -> dict[str, Any]:
    return {
        "Padding": d.number(0, 1),
        "StrideH": d.number(1, 2),
        "StrideW": d.number(1, 2),
        "FusedActivationFunction": d.one_of(*_ACTIVATIONS),
    }


def _weights(d: Any, x: Value, shape: Sequence[int], axis: int) -> list[Any]:
    """Weights with a scale for each channel along an axis, or one, and a bias or none."""
    element, count = x.array.dtype, shape[axis]
    if element.kind == "f":
        bias = [d.fresh(d.array((count,)))] if d.chance() else []
        return [d.constant(d.array(shape)) if d.number(0, 3) else d.input(d.array(shape)), *bias]
    kind = np.uint8 if element == np.uint8 else np.int8
    each = kind == np.int8 and d.chance()
    scale: Any = [0.01 * (n + 1) for n in range(count)] if each else 0.015
    zero = 120 if kind == np.uint8 else 0
    low, high = (0, 255) if kind == np.uint8 else (-127, 127)
    weights = d.constant(d.array(shape, kind, low, high), scale=scale, zero_point=zero, axis=axis if each else 0)
    if not d.chance():
        return [weights]
    bias_scale = [x.scale * s for s in scale] if each else x.scale * 0.015
    bias = d.array((count,), np.int64 if element == np.int16 else np.int32, -500, 500)
    return [weights, d.constant(bias, scale=bias_scale)]


_IMAGES = (np.float32, np.float32, *QUANTISED)


def _image(d: Any, channels: int, kinds: Any = _IMAGES) -> Value:
    shape = (d.number(1, 2), d.number(2, 7), d.number(2, 7), channels)
    fitting = [
        v
        for v in d.values
        if v.array.ndim == 4 and v.array.shape[-1] == channels and not v.epsilons and not v.is_limited
    ]
    fitting = [v for v in fitting if v.array.dtype in [np.dtype(k) for k in kinds] and v.array.size]
    found: Value = d.one_of(*fitting) if fitting and d.chance() else d.input(d.array(shape, d.one_of(*kinds)))
    return found


@MAKERS.add("CONV_2D")
def _conv(d: Any) -> None:
    groups = d.one_of(1, 1, 1, 2)
    x = _image(d, groups * d.number(1, 3))
    shape = (groups * d.number(1, 3), d.number(1, 3), d.number(1, 3), x.array.shape[-1] // groups)
    options = _window(d)
    if d.chance():
        options |= {"DilationHFactor": d.number(1, 2), "DilationWFactor": d.number(1, 2)}
    given = [x, *_weights(d, x, shape, 0)]
    d.operator("CONV_2D", given, [x.array.dtype], Limit.SUM, ("Conv2DOptions", options))


@MAKERS.add("DEPTHWISE_CONV_2D")
def _depthwise(d: Any) -> None:
    x = _image(d, d.number(1, 3))
    times = d.number(1, 2)
    options = _window(d) | {"DepthMultiplier": times}
    if options["StrideH"] == options["StrideW"] == 1 and d.chance():  # else LiteRT ends the process
        options |= {"DilationHFactor": d.number(1, 2), "DilationWFactor": d.number(1, 2)}
    given = [x, *_weights(d, x, (1, d.number(1, 3), d.number(1, 3), times * x.array.shape[-1]), 3)]
    d.operator("DEPTHWISE_CONV_2D", given, [x.array.dtype], Limit.SUM, ("DepthwiseConv2DOptions", options))


@MAKERS.add("TRANSPOSE_CONV")
def _transpose_conv(d: Any) -> None:
    x = _image(d, d.number(1, 3))
    options = _window(d)
    kernel = (d.number(1, 3), d.number(1, 3))
    batch, *sides, _ = x.array.shape
    strides = (options["StrideH"], options["StrideW"])
    lengths = [(n - 1) * s + k if options["Padding"] else n * s for n, s, k in zip(sides, strides, kernel, strict=True)]
    made = d.number(1, 3)
    weights, *bias = _weights(d, x, (made, *kernel, x.array.shape[-1]), 0)
    given = [d.constant([batch, *lengths, made], np.int32), weights, x, *bias]
    d.operator("TRANSPOSE_CONV", given, [x.array.dtype], Limit.SUM, ("TransposeConvOptions", options))


@MAKERS.add("FULLY_CONNECTED")
def _fully_connected(d: Any) -> None:
    x = d.pick((np.float32, *QUANTISED), 1, exact=True)
    inner = x.array.shape[-1]
    if not inner:
        return
    options = {"FusedActivationFunction": d.one_of(*_ACTIVATIONS), "KeepNumDims": d.chance()}
    given = [x, *_weights(d, x, (d.number(1, 4), inner), 0)]
    d.operator("FULLY_CONNECTED", given, [x.array.dtype], Limit.SUM, ("FullyConnectedOptions", options))


@MAKERS.add("BATCH_MATMUL")
def _batch_matmul(d: Any) -> None:
    kind = d.one_of(np.float32, np.float32, np.int8)
    turned, other = d.chance(), d.chance()
    rows, inner, columns = d.number(1, 4), d.number(1, 4), d.number(1, 4)
    batch = d.shape(0, 2, 3)
    a = d.input(d.array((*batch, *((inner, rows) if turned else (rows, inner))), kind))
    more = d.one_of(batch, tuple(d.one_of(1, n) for n in batch))
    b = d.fresh(d.array((*more, *((columns, inner) if other else (inner, columns))), kind))
    if more == batch or not (a.signature or b.signature):
        d.operator("BATCH_MATMUL", [a, b], [kind], Limit.SUM, ("BatchMatMulOptions", {"AdjX": turned, "AdjY": other}))


def _pool(code: str, kinds: Any, limit: Limit) -> None:
    @MAKERS.add(code)
    def make(d: Any) -> None:
        x = _image(d, d.number(1, 3), kinds)
        options = _window(d) | {"FilterHeight": d.number(1, 3), "FilterWidth": d.number(1, 3)}
        d.operator(code, [x], [x], limit, ("Pool2DOptions", options))


_pool("AVERAGE_POOL_2D", _IMAGES, Limit.SUM)
_pool("MAX_POOL_2D", _IMAGES, Limit.EXACT)
_pool("L2_POOL_2D", FLOAT, Limit.SUM)


def _resize(code: str, options: str, limit: Limit) -> None:
    @MAKERS.add(code)
    def make(d: Any) -> None:
        x = _image(d, d.number(1, 2), (np.float32, np.float32, *QUANTISED))
        flags = d.one_of({}, {"AlignCorners": True}, {"HalfPixelCenters": True})
        d.operator(code, [x, d.indexes([d.number(1, 9), d.number(1, 9)])], [x], limit, (options, flags))


_resize("RESIZE_BILINEAR", "ResizeBilinearOptions", Limit.SUM)
_resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", Limit.EXACT)


@MAKERS.add("LOCAL_RESPONSE_NORMALIZATION")
def _lrn(d: Any) -> None:
    x = _image(d, d.number(1, 5), FLOAT)
    fields = {"Radius": d.number(0, 3), "Bias": d.one_of(1.0, 2.0), "Alpha": 0.25, "Beta": d.one_of(0.75, 0.5)}
    options = ("LocalResponseNormalizationOptions", fields)
    d.operator("LOCAL_RESPONSE_NORMALIZATION", [x], [x], Limit.FUNCTION, options)


@MAKERS.add("ADD_N")
def _add_n(d: Any) -> None:
    x = d.pick((np.float32, np.int32))
    others = [d.alike(x, d.array(x.array.shape, x.array.dtype)) for _ in range(d.number(1, 3))]
    d.operator("ADD_N", [x, *others], [x], Limit.ROUNDED, ("AddNOptions", {}))


@MAKERS.add("EMBEDDING_LOOKUP")
def _embedding(d: Any) -> None:
    table = d.fresh(d.array((d.number(1, 4), *d.shape(1, 2)), FLOAT[0]))
    rows = d.fresh(d.array((d.number(1, 3),), np.int32, 0, table.array.shape[0] - 1))
    d.operator("EMBEDDING_LOOKUP", [rows, table], [table])


@MAKERS.add("CONV_3D")
def _conv_3d(d: Any) -> None:
    x = d.input(d.array((1, 3, 4, 3, d.number(1, 2))))
    w = d.constant(d.array((2, d.number(1, 2), 2, x.array.shape[-1], d.number(1, 2))))
    fields = {f"Stride{axis}": d.number(1, 2) for axis in "DHW"} | {f"Dilation{axis}Factor": 1 for axis in "DHW"}
    d.operator("CONV_3D", [x, w], [np.float32], Limit.SUM, ("Conv3DOptions", fields | {"Padding": d.number(0, 1)}))


def _sizes(d: Any) -> tuple[int, int, int, int]:
    """Draw a batch, steps, features and units."""
    return (d.number(1, 2), d.number(1, 3), d.number(1, 3), d.number(1, 3))


def _small(d: Any, *shape: int) -> Value:
    """Weights with which values neither vanish nor grow."""
    made: Value = d.constant(d.array(shape) / 4)
    return made


def _steps(d: Any, code: str, batch: int, steps: int, size: int) -> tuple[Value, dict[str, bool]]:
    """The input of an operator, of one step or of a sequence of them, and the options that say so."""
    if not code.startswith("UNIDIRECTIONAL"):
        return d.input(d.array((batch, size))), {}
    time_major = d.chance()
    return d.input(d.array((steps, batch, size) if time_major else (batch, steps, size))), {"TimeMajor": time_major}


def _rnn(code: str, options: str) -> None:
    @MAKERS.add(code)
    def make(d: Any) -> None:
        batch, steps, size, units = _sizes(d)
        x, fields = _steps(d, code, batch, steps, size)
        cell = [_small(d, units, size), _small(d, units, units), _small(d, units)]
        fields |= {"FusedActivationFunction": d.one_of(0, 1, 3)}
        d.operator(code, [x, *cell, d.variable((batch, units))], [np.float32], Limit.SUM, (options, fields))


_rnn("RNN", "RNNOptions")
_rnn("UNIDIRECTIONAL_SEQUENCE_RNN", "SequenceRNNOptions")


def _lstm(code: str, options: str) -> None:
    @MAKERS.add(code)
    def make(d: Any) -> None:
        batch, steps, size, units = _sizes(d)
        x, fields = _steps(d, code, batch, steps, size)
        gates = ["", "f", "c", "o"] if d.number(0, 3) == 3 else ["i", "f", "c", "o"]
        wide, narrow, bias = (
            [_small(d, *shape) if g else None for g in gates] for shape in ((units, size), (units, units), (units,))
        )
        peepholes = [_small(d, units) if g else None for g in (gates[0], *gates[1::2])] if d.chance() else [None] * 3
        cell = [*wide, *narrow, *peepholes, *bias, None, None]
        states = [d.variable((batch, units)) for _ in range(2)]
        norms = [_small(d, units) if g else None for g in gates] if d.number(0, 3) == 3 else []
        fields |= {"FusedActivationFunction": d.one_of(4, 1), "CellClip": d.one_of(0.0, 0.5)}
        d.operator(
            code, [x, *cell, *states, *norms], [np.float32], Limit.MAGNIFIED if norms else Limit.SUM, (options, fields)
        )


_lstm("LSTM", "LSTMOptions")
_lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions")


@MAKERS.add("SVDF")
def _svdf(d: Any) -> None:
    batch, memory, size, units = _sizes(d)
    rank = d.number(1, 2)
    x, state = d.input(d.array((batch, size))), d.variable((batch, units * rank * memory))
    weights = [_small(d, units * rank, size), _small(d, units * rank, memory), _small(d, units) if d.chance() else None]
    options = ("SVDFOptions", {"Rank": rank, "FusedActivationFunction": d.one_of(0, 1)})
    d.operator("SVDF", [x, *weights, state], [np.float32], Limit.SUM, options)


_BRANCHES = ("ABS", "NEG", "FLOOR", "SQUARE", "RELU", "TANH")


def _applied(file: TfliteFile, code: str, x: int, spec: Spec) -> list[int]:
    return file.operator(code, [x], {"r": spec})


@MAKERS.add("IF")
def _if(d: Any) -> None:
    x, codes = d.pick(FLOAT, exact=True), [d.one_of(*_BRANCHES) for _ in range(2)]

    def branches(file: TfliteFile, is_open: bool) -> Options:
        spec = _spec(Value("x", x.array), is_open)
        made = [file.subgraph(*_applied(file, code, file.input("x", spec), spec)) for code in codes]
        return ("IfOptions", {"ThenSubgraphIndex": made[0], "ElseSubgraphIndex": made[1]})

    d.operator("IF", [d.input(d.array((), np.bool_)), x], [x], Limit.FUNCTION, branches)


@MAKERS.add("WHILE")
def _while(d: Any) -> None:
    x, code, turns = d.pick(FLOAT, exact=True), d.one_of(*_BRANCHES), d.number(0, 3)
    number = Spec((), np.int32)

    def branches(file: TfliteFile, is_open: bool) -> Options:
        spec = _spec(Value("x", x.array), is_open)
        n, _ = file.input("n", number), file.input("x", spec)
        condition = file.subgraph(
            *file.operator("LESS", [n, file.constant(np.int32(turns))], {"more": Spec((), np.bool_)})
        )
        n, x_before = file.input("n", number), file.input("x", spec)
        (after,) = file.operator("ADD", [n, file.constant(np.int32(1))], {"after": number}, ("AddOptions", {}))
        body = file.subgraph(after, *_applied(file, code, x_before, spec))
        return ("WhileOptions", {"CondSubgraphIndex": condition, "BodySubgraphIndex": body})

    d.operator("WHILE", [d.input(np.asarray(d.number(0, 2), np.int32)), x], [np.int32, x], Limit.FUNCTION, branches)
