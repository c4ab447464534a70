"""The page of an explanation: its sums, a picture of the plan, its devices, operations and edges."""
