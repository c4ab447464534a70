"""What the dashboard costs beside a busy testbed: its pages, its live updates, and the inference of others."""
