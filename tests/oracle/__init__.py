"""The judge of the ops: every op of the contract, one Python float at a time, written from the text alone.

It imports nothing from the package under test and does no arithmetic in NumPy. Values are Python floats that
hold f32 numbers; arrays are nested lists. It is slow, and itself judged by the vector files (test_oracle.py).
"""
