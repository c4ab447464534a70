"""Computation of tasks, by kind: from arrays to arrays, without memory or addresses."""
