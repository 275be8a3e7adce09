"""Gates: executable requirements. Each is known to be able to fail, by faults that it ships and catches.

See docs/gates.md; `gnomon gate` runs them.
"""
