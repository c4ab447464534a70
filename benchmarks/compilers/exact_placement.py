"""Places the buffers of a schedule with CP-SAT, in an environment that has OR-tools: JSON from stdin to stdout.

The input has the ``sizes`` of tensors, and ``plans``: the tensors that ``arrive`` and ``die``, and one or two ``ways``
with the sizes of ``scratch`` buffers and, as [output, dying input, below, above], how close an output may lie. The
output is the least peak that was found, the bound that was proved, and whether they are the same.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations
from typing import Any

from ortools.sat.python import cp_model


def main() -> None:
    """Read, solve within the seconds that the first argument says, write."""
    problem = json.load(sys.stdin)
    sizes, limit = problem["sizes"], problem["limit"]
    model = cp_model.CpModel()
    peak = model.new_int_var(0, limit, "peak")
    address: dict[int, Any] = {}
    alive: list[int] = []
    for number, plan in enumerate(problem["plans"]):
        for tensor in plan["arrive"]:
            address[tensor] = model.new_int_var(0, limit, f"tensor {tensor}")
            model.add(address[tensor] + sizes[tensor] <= peak)
        present = [*alive, *plan["arrive"]]
        first = model.new_bool_var(f"plan {number} forwards")
        chosen = (first, first.negated())
        if len(plan["ways"]) == 1:
            model.add(first == 1)
        for way, is_chosen in zip(plan["ways"], chosen, strict=False):
            close = {(output, dying): (below, above) for output, dying, below, above in way["close"]}
            boxes = [(address[tensor], sizes[tensor], tensor) for tensor in present]
            for index, size in enumerate(way["scratch"]):
                base = model.new_int_var(0, limit, f"plan {number} scratch {index}")
                model.add(base + size <= peak).only_enforce_if(is_chosen)
                boxes.append((base, size, -1 - index))
            for one, other in combinations(boxes, 2):
                if one[2] in alive and other[2] in alive:
                    continue
                ways = [one[0] + one[1] <= other[0], other[0] + other[1] <= one[0]]
                for output, dying in ((one, other), (other, one)):
                    if (output[2], dying[2]) in close and dying[2] in plan["die"] and dying[2] in alive:
                        below, above = close[output[2], dying[2]]
                        ways += [dying[0] >= output[0] + below, output[0] >= dying[0] + above]
                held = [model.new_bool_var("") for _ in ways]
                for literal, constraint in zip(held, ways, strict=True):
                    model.add(constraint).only_enforce_if(literal)
                model.add_bool_or(held).only_enforce_if(is_chosen)
        alive = [tensor for tensor in present if tensor not in plan["die"]]
    model.minimize(peak)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = float(sys.argv[1])
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    answer = {
        "peak": int(solver.objective_value) if found else None,
        "bound": int(solver.best_objective_bound),
        "proved": status == cp_model.OPTIMAL,
    }
    json.dump(answer, sys.stdout)


main()
