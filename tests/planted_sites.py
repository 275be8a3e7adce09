"""The reference with one primitive replaced at one place: a division, a settling or a rounding of one op module."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import gnomon.reference.ops as ops

PLANTED = "_planted"


def called(node: ast.AST) -> str:
    """What a node is: "/" for a division, the name of the function for a call of settle or np.rint; else nothing"""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return "/"
    if isinstance(node, ast.Call):
        return ast.unparse(node.func)
    return ""


class Replace(ast.NodeTransformer):
    """The place numbered `at` (from 0) calls PLANTED instead"""

    def __init__(self, primitive: str, at: int) -> None:
        self.primitive, self.left = primitive, at

    def visit(self, node: ast.AST) -> ast.AST:
        mine = called(node) == self.primitive
        if mine:
            self.left -= 1
        planted = mine and self.left == -1
        node = self.generic_visit(node)
        if not planted:
            return node
        function = ast.Name(PLANTED, ast.Load())
        if isinstance(node, ast.BinOp):
            return ast.copy_location(ast.Call(function, [node.left, node.right], []), node)
        assert isinstance(node, ast.Call)
        return ast.copy_location(ast.Call(function, node.args, node.keywords), node)


def functions(primitive: str) -> Iterator[tuple[FunctionType, int]]:
    """Every function of the op modules that has the primitive, and in how many places"""
    for found in pkgutil.iter_modules(ops.__path__):
        module = importlib.import_module(f"{ops.__name__}.{found.name}")
        for function in vars(module).values():
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                count = sum(called(node) == primitive for node in ast.walk(tree_of(function)))
                if count:
                    yield function, count


def tree_of(function: FunctionType) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def places(primitive: str) -> dict[str, tuple[FunctionType, int]]:
    """By name, such as "rms_norm, settle 1" """
    return {
        f"{function.__name__}, {primitive} {at}": (function, at)
        for function, count in functions(primitive)
        for at in range(count)
    }


def changed(function: FunctionType, primitive: str, at: int, fault: Callable[..., Any]) -> FunctionType:
    """Another function with the fault; the function itself stays as it is"""
    tree = ast.fix_missing_locations(Replace(primitive, at).visit(tree_of(function)))
    space = {**function.__globals__, PLANTED: fault}
    exec(compile(tree, "planted", "exec"), space)
    made: FunctionType = space[function.__name__]
    return made


@contextmanager
def planted(function: FunctionType, primitive: str, at: int, fault: Callable[..., Any]) -> Iterator[None]:
    """All who have imported the function see it: its code is exchanged, not the function"""
    before = function.__code__
    function.__globals__[PLANTED] = fault
    function.__code__ = changed(function, primitive, at, fault).__code__
    try:
        yield
    finally:
        function.__code__ = before
        del function.__globals__[PLANTED]
