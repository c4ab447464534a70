"""Invalid models made from valid ones: every mutation of each family of the contract, at every place.

Families are named after the contract's rows. A mutation changes one thing in one subgraph. Mutations that the contract
allows are not in a family; ``still_valid`` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nnhal.types import Model
from tests.support.model_mutations import lifetimes, operand_types, operands, operations, order
from tests.support.model_mutations.mutation import Mutation

__all__ = ["FAMILIES", "Family", "Mutation", "still_valid"]

Family = Callable[[Model], Iterator[Mutation]]

FAMILIES: dict[str, Family] = {
    "VM-01": order.readers_before_writers,
    "VM-02": operands.no_types,
    "VM-03": operands.ranked_scalars,
    "VM-04": operands.wrong_scales,
    "VM-05": operands.wrong_zero_points,
    "VM-06": lifetimes.listed,
    "VM-07": lifetimes.unlisted,
    "VM-08": order.second_writers,
    "VM-09": operand_types.refused,
    "VM-10": operations.no_operations,
    "VM-11": operations.inputs_past_the_last,
    "VM-12": operations.outputs_past_the_last,
    "VM-13": order.diverted_results,
    "VM-14": order.missing_operands,
    "VM-15": order.missing_operations,
    "VM-16": operations.inputs_removed,
    "VM-17": operations.outputs_removed,
    "VM-18": operations.inputs_added,
    "VM-19": operations.outputs_added,
}
"""Each family of mutations, by its row."""


def still_valid(model: Model) -> Iterator[Mutation]:
    """Yield changes like those of VM-09 and VM-16 that must be accepted, since the operation allows them."""
    yield from operand_types.accepted(model)
    yield from operations.dispensable_inputs_removed(model)
