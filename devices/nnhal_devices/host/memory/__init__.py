"""Memory of executions: pools in place or staged, memory domains, their budget, and what the process itself takes."""
