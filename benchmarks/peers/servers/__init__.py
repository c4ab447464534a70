"""Programs that run in the peers' environments, and so import nothing of nnhal."""
