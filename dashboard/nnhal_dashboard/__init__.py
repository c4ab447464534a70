"""The admin dashboard: a process that shows devices, models, runs and memory in a browser, and changes them."""
