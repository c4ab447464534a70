"""What the commands for operators ask of running processes, and how they show it."""
