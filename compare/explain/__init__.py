"""Explain by reproduction: compute an op under a menu of departures from the contract, and name those whose bytes are
the observed ones. Never a guess: a name is given only for every byte of the tensor, on enough data to rule out luck."""

from gnomon.compare.explain.result import Candidate, Explanation
from gnomon.compare.explain.search import explain

__all__ = ["Candidate", "Explanation", "explain"]
