"""Steps that are bound to memory, and the ways to run them."""
