"""A loaded model that is bound to memory, and its runs."""
