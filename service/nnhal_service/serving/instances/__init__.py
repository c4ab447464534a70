"""Instances, which run batches: instances of a model, which are bound to memory of the framework or of clients."""
