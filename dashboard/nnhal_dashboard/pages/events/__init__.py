"""Events of the testbed, by kind, device, model, text and time."""
