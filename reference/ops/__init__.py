"""One op, one file, one name. Each takes and returns f32 NumPy arrays; the docstring gives the order of operations."""
