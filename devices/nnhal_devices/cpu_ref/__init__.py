"""cpu_ref: the reference driver. Every operation in numpy, clarity over speed."""
