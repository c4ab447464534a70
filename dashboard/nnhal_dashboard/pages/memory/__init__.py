"""Memory: who holds which, what lies in arenas, and which fences are waited for."""
