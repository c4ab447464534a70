"""Uses of ONNX operators that cpu_ref refuses at planning, because it would compute them wrongly or fail in the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnhal.support import Unsupported

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A use of an operator that is refused."""

    operator: str
    attribute: str
    expected: str
    refused: Callable[[Attributes], bool]
    """True if the attributes of a node, those that it has, are such a use."""
    last_opset: int = 1 << 30
    """The last opset in which it is refused."""


def _one_of(attribute: str, *values: object) -> Callable[[Attributes], bool]:
    return lambda attributes: attributes.get(attribute) in values


def _other_than(attribute: str, usual: object) -> Callable[[Attributes], bool]:
    return lambda attributes: attributes.get(attribute, usual) != usual


def _none_of(attribute: str, *values: object) -> Callable[[Attributes], bool]:
    return lambda attributes: attributes.get(attribute, values[0]) not in values


def _any_set(attribute: str) -> Callable[[Attributes], bool]:
    return lambda attributes: any(attributes.get(attribute, ()))


def _always(attributes: Attributes) -> bool:
    del attributes
    return True


def _unknown_activation(attributes: Attributes) -> bool:
    from nnhal_devices.cpu_ref.onnx_recurrent import ACTIVATIONS

    return not {name.decode().lower() for name in attributes.get("activations", ())} <= ACTIVATIONS


def _cubic_at_borders(attributes: Attributes) -> bool:
    return attributes.get("mode") in (b"bicubic", b"cubic") and attributes.get("padding_mode") == b"border"


def _places_given_twice(attributes: Attributes) -> bool:
    return "output_shape" in attributes and attributes.get("auto_pad", b"NOTSET") != b"NOTSET"


_STRING = 8
_TRACKS = "nodes_missing_value_tracks_true"
_INPUT_TYPE = "input type"
"""Stands among the attributes of a node for the element type of its first input, if the graph declares it."""


def _integers(attributes: Attributes) -> bool:
    return attributes.get(_INPUT_TYPE) in (2, 3, 4, 5, 6, 7, 12, 13)


RESIZE_VALUES = {
    "mode": (b"nearest", b"linear", b"cubic"),
    "coordinate_transformation_mode": (
        b"half_pixel",
        b"half_pixel_symmetric",
        b"pytorch_half_pixel",
        b"align_corners",
        b"asymmetric",
        b"tf_crop_and_resize",
        b"tf_half_pixel_for_nn",
    ),
    "nearest_mode": (b"round_prefer_floor", b"round_prefer_ceil", b"floor", b"ceil"),
    "keep_aspect_ratio_policy": (b"stretch", b"not_larger", b"not_smaller"),
}
"""The values of attributes of Resize."""


def _filters(attributes: Attributes) -> bool:
    return attributes.get("mode") == b"cubic" or bool(attributes.get("antialias"))


def _crops_with_filters(attributes: Attributes) -> bool:
    # ONNX Runtime does so for images whose channels are first only.
    return attributes.get("coordinate_transformation_mode") == b"tf_crop_and_resize" and _filters(attributes)


def _excludes_without_filters(attributes: Attributes) -> bool:
    return bool(attributes.get("exclude_outside")) and not _filters(attributes)


def _filters_nearest(attributes: Attributes) -> bool:
    return bool(attributes.get("antialias")) and attributes.get("mode", b"nearest") == b"nearest"


def _policy_of_negative_axes(attributes: Attributes) -> bool:
    # ONNX Runtime takes them as none of the axes of the policy.
    policy = attributes.get("keep_aspect_ratio_policy", b"stretch")
    return policy != b"stretch" and any(axis < 0 for axis in attributes.get("axes", ()))


def _transforms_margins(attributes: Attributes) -> bool:
    # Without probabilities ONNX Runtime transforms the two signs of a margin.
    transform = attributes.get("post_transform", b"NONE")
    return transform not in (b"NONE", b"LOGISTIC") and not attributes.get("prob_a")


def _one_score_of_two(attributes: Attributes) -> bool:
    # ONNX Runtime makes the score of the other class, in another way for each transform.
    labels = max(len(attributes.get(name, ())) for name in ("classlabels_ints", "classlabels_strings"))
    return len(attributes.get("intercepts", ())) < labels and attributes.get("post_transform") != b"LOGISTIC"


def _no_float32(attributes: Attributes) -> bool:
    return attributes.get(_INPUT_TYPE) not in (1, None)


_OTHER_EXPRESSIONS = re.compile(
    r"\[:|\\[pPzZCQEuUN0-9]|\\x\{|\(\?[=!<(>#]|\(\?P=|[*+?}]\+|\{,"
    r"|\(\?[a-z]*[UuLax]"
)
"""Syntax that RE2 and Python's expressions do not share, or read otherwise."""


def ignores_case(pattern: str) -> bool:
    return re.search(r"\(\?[a-z]*i", pattern) is not None


def _not_of_both(attributes: Attributes) -> bool:
    pattern = attributes.get("pattern", b"").decode()
    if _OTHER_EXPRESSIONS.search(pattern) or (ignores_case(pattern) and re.search(r"\\[dDwWsSbB]", pattern)):
        return True
    try:
        re.compile(pattern)
    except re.error:
        return True
    return False


_FLOATS, _INTEGERS = (1, 10, 11, None), (2, 3, 6)


def _interpolates_others(attributes: Attributes) -> bool:
    mode, kind = attributes.get("mode"), attributes.get(_INPUT_TYPE)
    integers = mode == b"linear" or attributes.get("antialias")
    return mode in (b"linear", b"cubic") and kind not in (_FLOATS + _INTEGERS if integers else _FLOATS)


_INTERPOLATED = "floats; UINT8, INT8 or INT32 for linear modes and antialias; any for mode nearest"

REFUSALS: Sequence[Refusal] = (
    Refusal("Cast", "to", "a type other than STRING", _one_of("to", _STRING)),
    Refusal("ConvTranspose", "auto_pad", "NOTSET beside output_shape", _places_given_twice),
    Refusal("GRU", "activations", "those of the specification", _unknown_activation),
    Refusal("GridSample", "padding_mode", "zeros or reflection for cubic modes", _cubic_at_borders),
    Refusal("LSTM", "activations", "those of the specification", _unknown_activation),
    Refusal(
        "LinearClassifier", "intercepts", "one for each class beside other transforms than LOGISTIC", _one_score_of_two
    ),
    Refusal("LinearClassifier", "post_transform", "other than PROBIT", _one_of("post_transform", b"PROBIT")),
    Refusal("LinearRegressor", "post_transform", "NONE", _other_than("post_transform", b"NONE")),
    Refusal("Normalizer", "norm", "L1 or L2", lambda a: a.get("norm", b"MAX") == b"MAX"),
    Refusal("Normalizer", _INPUT_TYPE, "FLOAT", _no_float32),
    Refusal("ReduceLogSumExp", _INPUT_TYPE, "floating point", _integers),
    Refusal("RegexFullMatch", "pattern", "what RE2 and Python's re read alike", _not_of_both),
    Refusal("RNN", "activations", "those of the specification", _unknown_activation),
    Refusal("Resize", "antialias", "0 in mode nearest", _filters_nearest),
    Refusal("Resize", "axes", "axes from 0 on beside a keep_aspect_ratio_policy", _policy_of_negative_axes),
    Refusal("Resize", "coordinate_transformation_mode", "half_pixel or others beside filters", _crops_with_filters),
    Refusal("Resize", "exclude_outside", "0 but for cubic modes and antialias", _excludes_without_filters),
    Refusal("Resize", _INPUT_TYPE, _INTERPOLATED, _interpolates_others),
    *(
        Refusal("Resize", name, "those of the specification", _none_of(name, *values))
        for name, values in RESIZE_VALUES.items()
    ),
    *(
        Refusal("Scan", name, "only 0", _any_set(name))
        for name in (
            "directions",
            "scan_input_axes",
            "scan_input_directions",
            "scan_output_axes",
            "scan_output_directions",
        )
    ),
    Refusal("Scan", "opset", "at least 9", _always, 8),
    Refusal("SVMClassifier", "post_transform", "NONE or LOGISTIC without prob_a", _transforms_margins),
    Refusal("SVMRegressor", "post_transform", "NONE", _other_than("post_transform", b"NONE")),
    Refusal("Scaler", _INPUT_TYPE, "FLOAT", _no_float32),
    Refusal("TreeEnsembleClassifier", "post_transform", "another operator", _always),
    Refusal("TreeEnsembleRegressor", "base_values", "none", _any_set("base_values")),
    Refusal("TreeEnsembleRegressor", _TRACKS, "0", _any_set(_TRACKS)),
    Refusal("TreeEnsembleRegressor", "post_transform", "NONE", _other_than("post_transform", b"NONE")),
    Refusal("Unique", "sorted", "1", _one_of("sorted", 0)),
    Refusal("Upsample", "mode", "nearest or linear", _none_of("mode", b"nearest", b"linear")),
    Refusal("Upsample", _INPUT_TYPE, _INTERPOLATED, _interpolates_others),
)
"""Found by trying each operator beside ONNX Runtime."""


def refusal(model: ModelProto) -> Unsupported | None:
    """Return the reason why cpu_ref does not compute a model, if it has a node that is refused."""
    opsets = {_plain_domain(imported.domain): imported.version for imported in model.opset_import}
    graphs = [model.graph, *model.functions]
    for graph in graphs:
        for operator, domain, attributes in _nodes(graph):
            if domain not in ("", "ai.onnx.ml"):
                continue  # a function or an operator of others may have the same name
            opset = opsets.get(domain, 1)
            for each in REFUSALS:
                if each.operator == operator and opset <= each.last_opset and each.refused(attributes):
                    got = opset if each.attribute == "opset" else attributes.get(each.attribute, "none given")
                    return Unsupported("OP", f"{operator} with {each.attribute} {_words(got)}", each.expected)
    return None


def _nodes(graph: GraphProto | Any) -> Iterator[tuple[str, str, Attributes]]:
    from onnx import helper

    declared = {d.name: d.type.tensor_type.elem_type for d in getattr(graph, "value_info", ())}
    if hasattr(graph, "initializer"):
        declared |= {d.name: d.type.tensor_type.elem_type for d in graph.input}
        declared |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        nested = [a.g for a in node.attribute if a.HasField("g")]
        plain = [a for a in node.attribute if not a.HasField("g") and not a.ref_attr_name]
        attributes = {a.name: helper.get_attribute_value(a) for a in plain}
        if node.input and node.input[0] in declared:
            attributes[_INPUT_TYPE] = declared[node.input[0]]
        yield node.op_type, _plain_domain(node.domain), attributes
        for inner in nested:
            yield from _nodes(inner)


def _plain_domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _words(value: Any) -> str:
    if isinstance(value, list):
        return str([_words(each) if isinstance(each, bytes) else each for each in value])
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
