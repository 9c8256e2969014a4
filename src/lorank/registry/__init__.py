"""The registry of methods: what there is by name, and what the rest of the program asks of a method."""

from lorank.registry.method import Cost, Method, Parameter
from lorank.registry.registry import CATALOGUE, find, methods, register, saved

__all__ = ["CATALOGUE", "Cost", "Method", "Parameter", "find", "methods", "register", "saved"]
