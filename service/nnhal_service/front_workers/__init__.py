"""Front workers: processes that serve the protocol's ports together, for the one framework that has the models."""
