"""Random models of ONNX, as hypothesis draws them: they grow operator by operator, and ONNX Runtime runs each at once.

The dimensions and types of all values are therefore known, and what ONNX Runtime refuses is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from nnhal.arrays import Array

OPSET = 21
OPSETS = (OPSET, 18, 13, 16, 11, 9)
_MANY = int(os.environ.get("NNHAL_RANDOM_MODELS", 0))
FLOATS = (np.float32,)
INTEGERS = (np.int8, np.uint8, np.int32, np.int64)
NUMBERS = (np.float32, np.float32, np.float16, np.float64, *INTEGERS, np.int16, np.uint16, np.uint32, np.uint64)
WORDS = ("", "a", "Bb", "käse", "a b", "10")


class Limit(Enum):
    """Limit of a result's distance from ONNX Runtime's, in epsilons of its type times its largest magnitude."""

    EXACT = 0
    """Moves, comparisons, integers, and one rounding."""
    STEP = 1
    """Integers that stand for reals: one more or less, where these are halfway between two."""
    ROUNDED = 8
    """A few roundings, in an order of the kernel's own."""
    FUNCTION = 64
    """Transcendental functions, by approximations of the kernel's own."""
    SUM = 256
    """Sums of products, added in any order."""
    MAGNIFIED = 1 << 14
    """Such sums, divided by a deviation that may be as small as 1e-4."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a model that is being drawn."""

    name: str
    array: Array
    """The results of ONNX Runtime for the inputs that are drawn."""
    epsilons: int = 0
    """How far another runtime may be from it, as ``Limit`` says, summed over operators; of integers, steps."""
    scale: Any = ()
    """The scale of a quantised value of TFLite, or those along an axis."""
    zero_point: int = 0
    axis: int = 0
    signature: Sequence[int] = ()
    """The dimensions of an input of TFLite of which some are open; empty if none is."""
    is_limited: bool = False
    """Whether the largest finite numbers stand for infinities, as LiteRT has it. No operator reads it then."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model with inputs, and what ONNX Runtime computes without any optimisation, or LiteRT."""

    content: bytes
    inputs: dict[str, Array]
    expected: dict[str, Array]
    epsilons: dict[str, int]
    text: str
    limited: Collection[str] = ()
    """The outputs in which the largest finite numbers stand for infinities."""

    def differences(self, answers: dict[str, Any]) -> list[str]:
        """Say which answers are no outputs of this model."""
        return [
            f"{name}: {why}"
            for name, wanted in self.expected.items()
            for got in [np.asarray(answers[name])]
            for why in [difference(_limited(got) if name in self.limited else got, wanted, self.epsilons[name])]
            if why
        ]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show it as text; hypothesis asks for this."""
        del cycle
        given = {name: (array.dtype.name, array.shape, array.tolist()) for name, array in self.inputs.items()}
        printer.text(f"{self.text}\n{given}")


def _limited(array: Array) -> Array:
    return np.clip(array, np.finfo(array.dtype).min, np.finfo(array.dtype).max)


def difference(got: Array, wanted: Array, epsilons: int) -> str:
    """Say how a result differs from what is wanted by more than its limit; empty if it does not."""
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype}{list(got.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
    allowed: Any = 0 if wanted.dtype.kind == "f" else epsilons
    if not epsilons:
        same = (got == wanted) | ((got != got) & (wanted != wanted))
    elif wanted.dtype.kind != "f":
        same = abs(got.astype(np.int64) - wanted.astype(np.int64)) <= epsilons
    else:
        finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
        allowed = epsilons * float(np.finfo(wanted.dtype).eps) * max(1.0, float(finite.max(initial=0)))
        with np.errstate(all="ignore"):
            same = np.isclose(got.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=allowed, equal_nan=True)
    if same.all():
        return ""
    at = tuple(int(n) for n in np.argwhere(~np.atleast_1d(same))[0])
    one, other = np.atleast_1d(got)[at], np.atleast_1d(wanted)[at]
    return f"{(~same).sum()} of {same.size} differ by more than {allowed:.3g}: at {at} {one!r}, expected {other!r}"


@dataclass
class Drawing:
    """A model that is being drawn."""

    draw: st.DrawFn
    empties: bool = False
    """Whether lengths of 0 are drawn."""
    values: list[Value] = field(default_factory=list)
    inputs: dict[str, Array] = field(default_factory=dict)
    open_axes: dict[str, list[str | int]] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    opset: int = OPSET

    def one_of(self, *choices: Any) -> Any:
        """Draw one of these, the simplest first."""
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        """Draw an integer."""
        return self.draw(st.integers(low, high))

    def chance(self) -> bool:
        """Draw whether something is so."""
        return self.draw(st.booleans())

    def shape(self, least: int = 0, most: int = 4, longest: int = 5) -> tuple[int, ...]:
        """Draw dimensions, of which one may be 0 if that is asked for."""
        shape = [self.number(1, longest) for _ in range(self.number(least, most))]
        if self.empties and shape and self.chance():
            shape[self.number(0, len(shape) - 1)] = 0
        return tuple(shape)

    def axis(self, rank: int) -> int:
        """Draw an axis, from either end."""
        return self.number(0, rank - 1) - (rank if self.chance() else 0)

    def permutation(self, rank: int) -> list[int]:
        """Draw an order of axes."""
        return self.draw(st.permutations(range(rank)))

    def axes(self, rank: int, least: int = 0) -> list[int]:
        """Draw some axes, each once, from either end."""
        chosen = self.permutation(rank)[: self.number(min(least, rank), rank)]
        return [axis - (rank if self.chance() else 0) for axis in chosen]

    def array(self, shape: Sequence[int], kind: Any = np.float32, low: float = -4, high: float = 4) -> Array:
        """Draw values: multiples of 1/4, among them all ties; integers; booleans."""
        random = np.random.default_rng(self.number(0, 2**16))
        element: np.dtype[Any] = np.dtype(kind)
        if element.kind == "b":
            return np.asarray(random.integers(0, 2, shape), bool)
        if element.kind == "O":
            return np.asarray(random.choice(WORDS, shape), object)
        if element.kind == "f":
            return np.asarray(random.integers(int(low * 4), int(high * 4) + 1, shape) / 4, element)
        least = max(int(low), np.iinfo(element).min)
        return np.asarray(random.integers(least, max(int(high), least) + 1, shape), element)

    def value(self, shape: Sequence[int], kind: Any) -> Array:
        """Draw values as ``array`` does, in one of eight some of which are extremes: NaN, infinities, -0, limits."""
        array = self.array(shape, kind)
        if array.dtype.kind in "bO" or self.number(0, 7) < 7:
            return array
        limits: Any = np.finfo(array.dtype) if array.dtype.kind == "f" else np.iinfo(array.dtype)
        extremes = [limits.max, limits.min]
        if array.dtype.kind == "f":
            extremes += [np.nan, np.inf, -np.inf, -0.0, limits.smallest_normal]
        random = np.random.default_rng(self.number(0, 2**16))
        return np.where(random.random(array.shape) < 0.3, random.choice(np.array(extremes, kind), array.shape), array)

    def constant(self, array: Any, kind: Any = None) -> Value:
        """Add a constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, kind)
        return Value(name, self.constants[name])

    def input(self, array: Array) -> Value:
        """Add an input of the model, some of whose axes may be open."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array
        opened = self.chance()
        self.open_axes[name] = [f"{name}_{n}" if opened and self.chance() else d for n, d in enumerate(array.shape)]
        return Value(name, array)

    def fresh(self, array: Array) -> Value:
        """Add an input of the model or a constant."""
        return self.constant(array) if self.number(0, 3) == 3 else self.input(array)

    def pick(
        self, kinds: Sequence[Any] = NUMBERS, least: int = 0, most: int = 4, exact: bool = False, longest: int = 5
    ) -> Value:
        """Pick a value that is there, or add an input: of one of the types and of a rank from ``least`` to ``most``.

        It is ``exact`` for operators whose results jump, or whose errors grow without bound.
        """
        allowed = {np.dtype(kind) for kind in kinds}
        fitting = [
            value
            for value in self.values
            if value.array.dtype in allowed
            and least <= value.array.ndim <= most
            and not (value.epsilons and (exact or value.array.dtype.kind != "f"))
            and value.array.size <= 4096
            and not value.is_limited
        ]
        if fitting and self.number(0, 3):
            found: Value = self.one_of(*fitting[::-1])
            return found
        return self.fresh(self.value(self.shape(least, most, longest), self.one_of(*kinds)))

    def like(self, value: Value) -> Value:
        """Pick a value of the same type, of dimensions that can be broadcast to it or with it."""
        same = [v for v in self.values if v.array.dtype == value.array.dtype and v.array.shape == value.array.shape]
        if same and self.chance():
            found: Value = self.one_of(*same)
            return found
        shape = [1 if self.number(0, 3) == 3 else length for length in value.array.shape]
        return self.fresh(
            self.value(shape[self.number(0, len(shape)) if self.number(0, 2) == 2 else 0 :], value.array.dtype)
        )

    def node(
        self,
        operator: str,
        inputs: Sequence[Value | str | None],
        limit: Limit = Limit.EXACT,
        outputs: int = 1,
        domain: str = "",
        outer: Sequence[Value] = (),
        before: Sequence[onnx.NodeProto] = (),
        **attributes: Any,
    ) -> None:
        """Add an operator, unless ONNX Runtime refuses it.

        Graphs in its attributes read the ``outer`` values, and so do the nodes ``before`` it, whose results it reads by
        name: those that are no arrays.
        """
        names = [f"v{len(self.nodes)}_{n}" for n in range(outputs)]
        given = [value.name if isinstance(value, Value) else value or "" for value in inputs]
        nodes = [*before, helper.make_node(operator, given, names, domain=domain, **attributes)]
        known = {value.name: value for value in (*inputs, *outer) if isinstance(value, Value)}
        is_known = domain or onnx.defs.has(operator, self.opset, "")
        if not is_known or (not domain and onnx.defs.get_schema(operator, self.opset, "").deprecated):
            return  # some are in ONNX Runtime before they are in ONNX, or after that
        if limit == Limit.SUM and any(_is_vast(value.array) for value in known.values()):
            return  # sums that overflow are nobody's
        results = run_alone(nodes, {name: value.array for name, value in known.items()}, self.opset)
        if results is None or sum(result.size for result in results) > 1 << 16:
            return
        self.nodes += nodes
        self.read.update(known)
        carried = sum(value.epsilons for value in known.values())
        for name, result in zip(names, results, strict=True):
            steps = limit.value if limit == Limit.STEP else 0
            epsilons = 2 * carried + limit.value if result.dtype.kind == "f" else steps
            self.values.append(Value(name, result, epsilons))

    def case(self) -> Case | None:
        """Return the model; None if it has no operator, or if ONNX Runtime refuses it as a whole."""
        outputs = [value for value in self.values if value.name not in self.read or self.number(0, 3) == 3]
        inputs = {name: array for name, array in self.inputs.items() if name in self.read}
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [_info(name, array, self.open_axes[name]) for name, array in inputs.items()],
            [_info(value.name, value.array, None) for value in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in self.read],
        )
        domains = {node.domain for node in self.nodes} | {""}
        opsets = [helper.make_opsetid(domain, 1 if domain else self.opset) for domain in sorted(domains)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        results = run_plainly(model, inputs) if self.nodes else None
        if results is None:
            return None
        names = [value.name for value in outputs]
        expected, limits = dict(zip(names, results, strict=True)), {v.name: v.epsilons for v in outputs}
        return Case(model.SerializeToString(), inputs, expected, limits, onnx.printer.to_text(model))


def _is_vast(array: Array) -> bool:
    return array.dtype.kind in "iu" and array.itemsize > 1 and bool((abs(array.astype(np.float64)) > 1 << 14).any())


def _info(name: str, array: Array, shape: Sequence[str | int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def run_alone(nodes: Sequence[onnx.NodeProto], inputs: dict[str, Array], opset: int) -> list[Array] | None:
    """Run one node, and those before it that it needs, by ONNX Runtime; None if it refuses."""
    node = nodes[-1]
    graph = helper.make_graph(
        nodes,
        "node",
        [_info(name, array, array.shape) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(node.domain, 1)] if node.domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return run_plainly(model, inputs)


def run_plainly(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array] | None:
    """Run a model by ONNX Runtime without optimisations; None if it refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results: list[Any] = [*session.run(None, inputs)]
    except Exception:  # its errors have no common class
        return None
    return results if all(isinstance(result, np.ndarray) for result in results) else None


def parsed(text: str) -> Case:
    """Return a model of ONNX's text, for which values are random. An axis whose name is a letter and N is N long."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {OPSET}]> found {text}')
    random, inputs = np.random.default_rng(0), {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [int(dim.dim_param[1:]) if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
        values = random.integers(-8, 9, shape) / 4
        inputs[value.name] = np.asarray(values, helper.tensor_dtype_to_np_dtype(kind.elem_type))
    results = run_plainly(model, inputs)
    assert results is not None, text
    names = [value.name for value in model.graph.output]
    expected = dict(zip(names, results, strict=True))
    return Case(model.SerializeToString(), inputs, expected, dict.fromkeys(names, Limit.SUM.value), text)


def examples(count: int) -> settings:
    """Settings for so many models, the same each time, and not made smaller; or for as many as the environment says."""
    if _MANY:
        return settings(max_examples=_MANY, derandomize=False, suppress_health_check=list(HealthCheck))
    return settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


Maker = Callable[[Any], None]
"""Adds an operator to a model that is being drawn."""


class Makers(dict[str, Maker]):
    """Makers by the names of their operators."""

    def add(self, name: str) -> Callable[[Maker], Maker]:
        """Return a decorator for the maker of an operator."""
        return lambda maker: self.setdefault(name, maker)

    def each(self, *names: str) -> Callable[[Callable[[str, Any], None]], None]:
        """Return a decorator for what makes each of several operators, when it is given the name of one."""

        def add(maker: Callable[[str, Any], None]) -> None:
            self.update({name: partial(maker, name) for name in names})

        return add


def models(
    makers: Mapping[str, Maker], most: int, empties: bool = False, kind: type[Drawing] | None = None
) -> st.SearchStrategy[Case | None]:
    """Models of up to ``most`` of these operators, of ONNX unless another kind of drawing is given."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Case | None:
        drawing = (kind or Drawing)(draw, empties)
        drawing.opset = drawing.one_of(*OPSETS) if drawing.chance() else OPSET
        for _ in range(drawing.number(1, most)):
            drawing.one_of(*makers.values())(drawing)
        return drawing.case()

    return drawn()
