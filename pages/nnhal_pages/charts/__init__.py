"""Charts: values over time, memories, units at work, runs, as SVG that a page's style sheet colours."""
