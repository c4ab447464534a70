"""A request and its response: tensors, the signature that they have to fit, and what a run does by plan."""
