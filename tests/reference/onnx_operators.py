"""onnx_operators.md: ONNX operators on cpu_ref, and points where ONNX and the HAL could differ."""

from __future__ import annotations

from collections import Counter

from onnx.defs import get_all_schemas_with_history
from onnx.reference.ops import load_op

from nnhal_devices.cpu_ref.onnx_operators import OPERATORS
from nnhal_devices.cpu_ref.onnx_refusals import REFUSALS
from tests.devices.cpu_ref.test_onnx_kernels import others, pools, recurrent
from tests.support.onnx_points import POINTS, lowered, table

_GRID = {"Resize": "a grid of all attributes", "Upsample": "a grid of all attributes"}
_PAGE = """# ONNX operators

## On cpu_ref

cpu_ref computes operators of ONNX for which the HAL has no operation, and is what models fall back to if a device
dies. It uses ONNX's reference evaluator, or kernels of its own where the evaluator computes otherwise than the
specification says, or less. "Compared" is the number of uses that tests compare with ONNX Runtime. Integers, booleans
and strings must be equal, and floats within 1e-4 of the value or 1e-5. A Resize of integers, or to the nearest element,
must be equal bit for bit. Operators that are not compared have ONNX's node tests only
([onnx_coverage.md](onnx_coverage.md)). Uses that are refused are refused when a model is loaded.

{operators}

Every other operator that the evaluator has is computed by it, and compared by ONNX's node tests only: {rest}.

## Where the HAL's meaning is wider

ONNX operators become the HAL's operations where these have their meaning. Where the HAL leaves open what ONNX
defines, cpu_ref computes what ONNX says. QUANTIZE of reals, and every other quantised result that is computed by way
of reals, rounds halves to even, as QuantizeLinear and XNNPACK (LiteRT's default) do. The HAL's conformance tests
allow quantised results one step. Fixed-point requantisation and averages of integers stay those of NNAPI's reference
implementation. A NaN becomes the least quantised value. Devices that are modelled after hardware keep their own
rounding (`ethos_u`, `mlip`), and take no QUANTIZE of a model's floats: those go to a CPU device.

Tests compare cpu_ref and cpu_acc with ONNX Runtime at these points:

{points}
"""


def onnx_operators_page() -> str:
    """Return the text of the page."""
    own = {operator.__name__ for operator in OPERATORS}
    compared = Counter(case.operator for case in (*recurrent(), *pools(), *others()))
    compared.update(p.operator for p in POINTS if not p.open and "nnhal.onnx" in lowered(p))
    refused: dict[str, list[str]] = {}
    for each in REFUSALS:
        limit = f" before opset {each.last_opset + 1}" if each.last_opset < 1 << 30 else ""
        refused.setdefault(each.operator, []).append(f"`{each.attribute}`{limit} (allowed: {each.expected})")
    rows = ["| operator | computed by | compared | refused |", "|---|---|---|---|"]
    named = sorted({*own, *compared, *refused})
    for operator in named:
        by = "cpu_ref" if operator in own else "the evaluator"
        tried = _GRID.get(operator, compared[operator] or "")
        rows.append(f"| {operator} | {by} | {tried} | {'; '.join(refused.get(operator, ()))} |")
    rest = sorted({s.name for s in get_all_schemas_with_history() if s.domain in ("", "ai.onnx.ml")} - {*named})
    return _PAGE.format(
        operators="\n".join(rows), rest=", ".join(f"`{name}`" for name in filter(_is_computed, rest)), points=table()
    )


def _is_computed(operator: str) -> bool:
    try:
        load_op("", operator)
    except Exception:  # it raises several
        return False
    return True
