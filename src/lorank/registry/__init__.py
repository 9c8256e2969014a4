"""The registry of methods: what there is by name, and what the rest of the program asks of a method."""

from lorank.registry.method import Cost, Method, Parameter
from lorank.registry.registry import CATALOGUE, distributable, find, methods, register, saved

__all__ = ["CATALOGUE", "Cost", "Method", "Parameter", "distributable", "find", "methods", "register", "saved"]
