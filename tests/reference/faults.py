"""docs/reference/faults.md: faults that can be injected, and how clients end with each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from nnhal.device_calls import METHODS
from nnhal_hosting.faults.conditions import Condition
from nnhal_hosting.faults.document import MAX_FAULTS, Fault
from nnhal_hosting.faults.kinds import LayerCondition
from tests.support.fault_outcomes import CPP_ROWS, FRAMEWORK_ROWS, NDK_ROWS

_PAGE = """# Faults

[Debug a driver](../debug_a_driver.md#make-the-device-fail) says how to set faults.
`nnhal faults schema` prints the JSON Schema of their files.

```toml
[[fault]]
name = "second run fails"
what = "error"
status = "RESOURCE_EXHAUSTED_TRANSIENT"
device = "npu0"
operation = "CONV_2D"
nth = 2

[[fault]]
what = "delay"
ms = 20
distribution = "normal"
spread_ms = 5
method = ["Channel.Burst", "Channel.Run"]
probability = 0.1
seed = 7

[[fault]]
what = "death"
signal = "SIGSEGV"
method = "prepare"
every_start = true
```

A call meets faults in the order in which they were set. A fault with the name of another replaces it.
A device has at most {most} faults.

## When

A fault happens to each call that meets all of its conditions.
Patterns may have `*` and `?`, and a key may have several patterns in a list.

{conditions}

| of | methods |
|---|---|
{methods}

## What

{kinds}

An execution that hangs or is delayed still ends at its deadline.
If it hangs longer, its process ends after `NNHAL_DEVICE_STOP_SECONDS`.
A device without an SRAM of its own refuses `shrunk_sram`, and so does one whose SRAM is not larger than `bytes`.

## Layers

With `layer`, a fault happens in layers of the model, each time that one is computed.

```toml
[[fault]]
what = "values"
how = "saturated"
layer = ["DEPTHWISE_CONV_2D", "head/logits", 7]
device = "npu0"
times = 1
```

- A layer is an operation of the model: a type (`"CONV_2D"`, `"*POOL*"`), or a number from 0 on.
- `"0:3"` is operation 3 of the referenced subgraph 0. A layer in a loop has the fault in each turn.
- Where a device takes the nodes of the user's file, as cpu_acc does, their names and ONNX types are layers too.
- A node in a body or a branch has its path as its name: `"decoder/body/Mul_3"`.
- cpu_ref computes the outputs that depend on wrong values. All other outputs, and the times, are the device's.
- Devices on other hosts refuse such faults; set them there.

## How clients end

*right*: right values. *falls back*: right values, computed on another device, and the report says so.
*wrong values*: nobody can know.
*refused at loading*: the model, which is pinned to the device, does not load. *not met*: this plan makes no such call.

### The framework

The plan has one step, on the device; or three steps that are wired; or three that are chained by fences.
The device misbehaves each time.

{framework}

### Programs of NeuralNetworks.h

The compilation names this device only.

{ndk}

### The client in C++

The client of `examples/c` prints the sums of a call, a burst and a launch. It waits for one second at most.

{cpp}
"""


def _table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    columns = head.count("|") + 1
    lines = [f"| {head} |", f"|{'---|' * columns}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines).replace("``", "`")


def _values(field: FieldInfo) -> str:
    words = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    return ", ".join(f"`{word}`" for word in words if word)


def _default(field: FieldInfo) -> str:
    default = field.default
    if field.is_required():
        return "required"
    if isinstance(default, tuple):
        return ", ".join(f"`{each}`" for each in default) or "any"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`" if default not in ("", None, 0) else ""


def _meaning(text: str | None) -> str:
    return " ".join((text or "").split())


def _key(name: str, field: FieldInfo) -> str:
    """Return a key of a kind with its values, its default and its meaning."""
    default = _default(field)
    words = [
        _values(field),
        _meaning(field.description),
        f"default {default}" if default not in ("", "required") else default,
    ]
    said = "; ".join(word.rstrip(".") for word in words if word)
    return f"`{name}`: {said}" if said else f"`{name}`"


def _kinds() -> Iterable[tuple[str, ...]]:
    for kind in get_args(get_args(Fault)[0]):
        (what,) = get_args(kind.model_fields["what"].annotation)
        own = kind.model_fields.keys() - Condition.model_fields.keys() - {"what", "layer"}
        keys = [_key(name, kind.model_fields[name]) for name in kind.model_fields if name in own]
        if issubclass(kind, LayerCondition):
            keys.append("`layer`")
        yield f"`{what}`", _meaning(kind.__doc__), "<br>".join(keys)


def _methods() -> str:
    """Return the rows of the methods, those of one service in a row."""
    services: dict[str, list[str]] = {}
    for method in METHODS:
        services.setdefault(method.partition(".")[0], []).append(f"`{method}`")
    return "\n".join(f"| {service} | {'<br>'.join(methods)} |" for service, methods in services.items())


def faults_page() -> str:
    """Return the text of the page."""
    conditions = (
        (f"`{name}`", _meaning(field.description), _default(field)) for name, field in Condition.model_fields.items()
    )
    return _PAGE.format(
        most=MAX_FAULTS,
        conditions=_table("key | meaning | default", conditions),
        methods=_methods(),
        kinds=_table("`what` | effect | keys", _kinds()),
        framework=_table(
            "fault | one step | wired | by fences",
            ((name, row.alone, row.wired, row.fences) for name, row in FRAMEWORK_ROWS.items()),
        ),
        ndk=_table(
            "fault | result of `burst_compute` | result of the fence",
            ((name, row.unfenced, row.fenced) for name, row in NDK_ROWS.items()),
        ),
        cpp=_table(
            "fault | sums | last words",
            ((name, row.sums or "none", row.error or "none") for name, row in CPP_ROWS.items()),
        ),
    )
