"""Problems: observed entries, a loss, a regularizer, and side information."""

from lorank.problems.problem import Problem, solve_lines, squared_error

__all__ = ["Problem", "solve_lines", "squared_error"]
