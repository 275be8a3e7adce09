"""The only place that says "equal": bits, verdict words, mismatch records, and the diff of two engines.

Equal means the same bytes, of the same type, in the same shape, finite, and alive: NaN is equal to nothing,
-0.0 is not +0.0, nothing broadcasts, nothing empty passes, and zeros pass only where zeros belong. There is
no tolerance. What differs is named to the bit.
"""
