"""Work of ``nnhal mlip``: compile a model file for mlip, explain, simulate, and draw what the simulator found."""
