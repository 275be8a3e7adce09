"""The definition: a NumPy transformer whose bytes every other engine must reproduce.

It promises these bits, for version 1 of the arithmetic contract (docs/contract.md): every float operation is one
correctly rounded binary32 operation in an order that this code spells out. It refuses what leaves that order open:
no BLAS, no libm, no `einsum`, no `np.sum`, no `@` on floats, no fused multiply-add, no reassociation.
It is written for clarity. Where it is fast, the reason stands in one file, `ops/tiling.py`.
"""

CONTRACT_VERSION = 1
