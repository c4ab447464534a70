"""Programs that run in the peers' environments: they import nothing of nnhal."""
