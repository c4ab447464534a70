"""nnhal: the contract of the NN HAL in Python, and both ends of the wire that carries it."""
