"""Which operators make a layer of the accelerator, and what it takes of them."""
