"""operations.md: the operands of every operation."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from nnhal.operations import MODULES, OperationDefinition
from nnhal.types import OperationType
from tests.reference.operations.meanings import TOLD_ONCE, meaning_of
from tests.reference.operations.signatures import Form, all_forms, describe_types, name_types

_HEAD = """# The operations

The operands of every operation: their order, their types, and their layout. The enumerations are in
[model.proto](messages.md#modelproto). A model that breaks a rule is refused with INVALID_ARGUMENT and the rule.

- An operation lists its inputs and outputs by index, in the order below. Inputs in italics may be left out: at the
  end by a shorter list, elsewhere as an operand with lifetime NO_VALUE.
- *float* is TENSOR_FLOAT32 or TENSOR_FLOAT16, *quant8* is TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED. Types
  without TENSOR_ are scalars: such an operand has no dimensions. An operand without a type has that of input 0. So has
  an output without a word about it; its dimensions are those of input 0 too.
- Tensors are row-major without gaps, little-endian.
- *Images* are `[batch, height, width, channels]`, or `[batch, channels, height, width]` if the layout flag is true.
- If nothing else is said: *padding* is 1 for SAME, 2 for VALID. *activation* is 0 for none, 1 RELU, 2 RELU1, 3 RELU6.
  *layout* says whether images have their channels first, and is false by default. Dilations are 1 by default. Strides,
  filters and the four paddings count elements.
- Explicit forms give four paddings instead of a scheme. The number and the types of the inputs distinguish the forms.
- Scalars and small tensors that parametrise an operation are usually constants, and devices may decline others.
- A bias has the input's type if that is a float. Otherwise it is TENSOR_INT32, and its scale is the product of the
  scales of input and filter.

"""
_CONTROL_FLOW = """## IF

One of two subgraphs, by a condition. Its outputs are those of the subgraph.

- 0 condition, TENSOR_BOOL8: [1].
- 1 then, SUBGRAPH: The index in `Model.referenced` is the operand's `location.offset`.
- 2 else, SUBGRAPH: With the same inputs and outputs.
- 3 ... values, any type: The inputs of the subgraph that runs.

## WHILE

A subgraph repeated as long as another one yields true. Its outputs are the first outputs of the body in the last turn.

- 0 condition, SUBGRAPH: Takes all values; its one output is TENSOR_BOOL8 [1].
- 1 body, SUBGRAPH: Takes all values; its outputs are the first values of the next turn.
- 2 ... values, any type: Values that change from turn to turn first, then values that stay.
"""
_AS_FIRST, _AS_INPUT = "as input 0", ": the input's dimensions."
"""How types and outputs are described if there is nothing to say of them."""
_WITHOUT_NAMES = {
    OperationType.CONCATENATION: (
        ("0 ... n - 1", "tensors", "Rank 1 to 4, with equal dimensions except along the axis."),
        ("n", "axis", "From 0 to rank - 1."),
    ),
}


def operations_page() -> str:
    """Return the page. Raises an error if an input has no meaning."""
    groups: dict[str, list[str]] = {}
    for definition, forms in all_forms():
        groups.setdefault(_body(definition, forms), []).append(definition.type.name)
    sections = [f"## {', '.join(names)}\n\n{body}" for body, names in groups.items()]
    return _HEAD + "\n".join(sections) + "\n" + _CONTROL_FLOW


def _body(definition: OperationDefinition, forms: list[Form]) -> str:
    parts = [_summary(definition), ""]
    first = list(_inputs(definition, forms[0]))
    if len(forms) == 1:
        parts += [*_lines(first), ""]
    else:
        explicit = list(_inputs(definition, forms[1]))
        parts += ["The implicit form:", "", *_lines(first), "", "The explicit form:", "", *_lines(explicit, first), ""]
    outputs = _outputs(definition, forms[0])
    if outputs != _AS_INPUT:
        parts += [f"Outputs{outputs}", ""]
    return "\n".join(parts)


def _summary(definition: OperationDefinition) -> str:
    """Return what the operation's module says of it: ``PAD and PAD_V2: a tensor with a border.`` begins a paragraph."""
    module = importlib.import_module(f"nnhal.operations.{MODULES[definition.type]}")
    for line in (inspect.getdoc(module) or "").splitlines():
        names, _, rest = line.partition(": ")
        if definition.type.name in re.split(", | and ", names):
            return rest[:1].upper() + rest[1:]
    raise LookupError(f"{module.__name__} says nothing of {definition.type.name}")


class _Input(NamedTuple):
    position: str
    name: str
    """In italics if the input may be left out."""
    types: str
    meaning: str


def _inputs(definition: OperationDefinition, form: Form) -> Iterator[_Input]:
    if form.names is None:
        for (position, name, meaning), index in zip(
            _WITHOUT_NAMES[definition.type], (0, max(form.inputs)), strict=True
        ):
            yield _Input(position, name, _types(form, index), meaning)
        return
    fewest = min(form.counts)
    for member in form.names:
        if member in form.inputs:
            is_optional = form.inputs[member].optional or member >= fewest
            name = f"*{member.name.lower()}*" if is_optional else member.name.lower()
            yield _Input(str(member.value), name, _types(form, member), meaning_of(form.names, member))


def _lines(inputs: list[_Input], known: Sequence[_Input] = ()) -> Iterator[str]:
    """Yield a line for each run of inputs that are alike; those in ``told`` get only their places and names."""
    said = {each[1:] for each in known}

    def text(each: _Input) -> str:
        if each[1:] in said:
            return ", as above."
        types = "" if each.types == _AS_FIRST else f", {each.types}"
        return f"{types}." if each.meaning in TOLD_ONCE else f"{types}: {each.meaning}"

    for line, alike in groupby(inputs, text):
        yield f"- {', '.join(f'{each.position} {each.name}' for each in alike)}{line}"


def _types(form: Form, index: int) -> str:
    use = form.inputs[index]
    return name_types(use.all_types) if index == form.main else describe_types(use, form.main)


def _outputs(definition: OperationDefinition, form: Form) -> str:
    """The types of the outputs, and what the operation's module says of their dimensions."""
    said = next(iter((inspect.getdoc(definition.prepare) or "").splitlines()), "")
    types = [describe_types(form.outputs[index], form.main) for index in sorted(form.outputs)]
    listed = "; ".join(f"{number} {each}" for number, each in enumerate(types)) if len(set(types)) > 1 else types[0]
    dimensions = said.removeprefix("Return ").replace("``", "`")
    return f": {dimensions}" if listed == _AS_FIRST else f", {listed}: {dimensions}"
