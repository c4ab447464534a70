"""Real numbers as fp16 or int8: scales of values, weights, biases."""
