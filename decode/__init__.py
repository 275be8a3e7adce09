"""Making text: sampling, on the engine protocol alone."""
