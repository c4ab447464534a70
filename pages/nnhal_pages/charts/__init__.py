"""Charts: values over time, memories, units at work, rooflines, runs, as SVG that a page's style sheet colours."""
