"""What the compile flow of the MLIP costs, and what time it models."""
