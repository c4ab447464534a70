"""A loaded model and its contexts: what is bound to memory, by which plan, and one run at a time."""
