"""Questions of the operators' commands to running processes, and views of the answers."""
