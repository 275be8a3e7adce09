"""Faults for gates to catch. Each is a function that gives a copy of a subject with one part broken, from outside."""
