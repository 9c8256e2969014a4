"""The paper's numbers: its tables 4 to 6 (Wang, Yao, Kwok, "A scalable, adaptive and sound nonconvex regularizer for
low-rank matrix learning", WWW 2021).

Errors are NMSE (table 4) or RMSE (tables 5 and 6) on test entries, times are seconds on its machine (Intel i7 3.6 GHz,
MATLAB with C); each with its standard deviation over five repetitions. What the paper leaves out ("-") is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Printed(float):
    """A number that keeps the digits it is printed with: 0.820, not 0.82."""

    text: str

    def __new__(cls, text: str) -> Printed:
        number = super().__new__(cls, text)
        number.text = text
        return number


class Published(NamedTuple):
    """A row of a table for one data set."""

    error: Printed
    error_std: Printed
    seconds: Printed
    seconds_std: Printed


def _by_method(columns: tuple[str, ...], rows: str) -> dict[str, dict[str, Published]]:
    """Data set -> method -> numbers, from lines of `method error std seconds std error std ...`, - where nothing is."""
    found: dict[str, dict[str, Published]] = {column: {} for column in columns}
    for line in rows.strip().splitlines():
        method, *words = line.split()
        for index, column in enumerate(columns):
            numbers = words[4 * index : 4 * index + 4]
            if "-" not in numbers:
                found[column][method] = Published(*map(Printed, numbers))
    return found


TABLE_4 = _by_method(
    ("synthetic-500", "synthetic-1000", "synthetic-2000"),
    """
    nuclear          0.0436 0.0003 2.1   0.2   0.0375 0.0003 4.2    1.0   0.0333 0.0001 40.9   7.2
    factored-nuclear 0.0246 0.0003 0.04  0.01  0.0218 0.0004 0.08   0.02  0.0198 0.0001 0.4    0.2
    bpmf             0.0234 0.0005 3.2   0.4   0.0203 0.0005 5.8    0.9   0.0188 0.0001 48.3   5.9
    fgsr             0.0219 0.0003 0.5   0.1   0.0197 0.0004 4.2    0.2   0.0185 0.0001 6.7    0.4
    truncated-l12    0.0196 0.0003 695.8 19.2  0.0182 0.0004 1083.2 40.78 0.0177 0.0001 3954.1 98.7
    capped-l1        0.0197 0.0003 0.8   0.1   0.0183 0.0003 5.4    0.1   0.0178 0.0001 36.0   3.4
    lsp              0.0197 0.0003 0.8   0.1   0.0183 0.0004 5.1    0.1   0.0177 0.0001 35.1   2.1
    mcp              0.0196 0.0003 0.7   0.1   0.0182 0.0003 4.1    0.2   0.0178 0.0001 40.6   3.6
    nnfn-prox        0.0196 0.0003 2.1   0.2   0.0182 0.0003 7.7    0.6   0.0177 0.0001 43.1   2.3
    nnfn             0.0196 0.0003 0.04  0.01  0.0182 0.0003 0.08   0.02  0.0177 0.0001 0.3    0.1
    """,
)

TABLE_5 = _by_method(
    ("movielens-1m", "movielens-10m", "yahoo"),
    """
    nuclear          0.820 0.002 118.7  19.2  0.807 0.001 821.2 27.7 0.721 0.001 1133.1 58.3
    factored-nuclear 0.810 0.001 0.6    0.1   0.795 0.001 41.8  7.3  0.710 0.008 533.9  25.7
    bpmf             0.807 0.001 215.3  29.4  0.791 0.001 819.6 30.8 0.707 0.003 1433.5 89.2
    fgsr             0.805 0.001 14.2   1.5   -     -     -     -    -     -     -      -
    truncated-l12    0.797 0.001 6068.4 172.0 -     -     -     -    -     -     -      -
    capped-l1        0.800 0.001 147.9  23.3  0.787 0.001 812.3 29.7 0.658 0.001 1296.8 67.3
    lsp              0.799 0.001 149.2  23.5  0.787 0.001 850.8 31.1 0.656 0.001 1078.0 69.0
    mcp              0.801 0.001 151.4  23.9  0.787 0.001 849.8 31.5 0.678 0.001 1108.3 41.4
    nnfn-prox        0.797 0.001 134.2  19.6  0.782 0.001 834.5 29.2 0.652 0.001 1209.7 61.2
    nnfn             0.797 0.001 0.5    0.1   0.782 0.001 40.0  5.5  0.652 0.001 522.5  21.9
    """,
)

TABLE_6 = _by_method(
    ("gas-co2", "gas-h2", "ushcn-temperature", "ushcn-precipitation"),
    """
    nuclear          0.584 0.005 1.0  0.1  0.593 0.006 0.8  0.1  0.480 0.014 108.5 4.1  0.828 0.020 84.9  11.2
    factored-nuclear 0.565 0.006 0.05 0.02 0.574 0.005 0.06 0.03 0.483 0.016 6.0   1.6  0.823 0.018 13.7  1.7
    bpmf             0.552 0.005 3.2  0.3  0.554 0.005 3.4  0.4  0.464 0.012 148.1 7.7  0.819 0.015 125.1 8.1
    grals            0.565 0.006 0.7  0.1  0.578 0.005 0.4  0.1  0.498 0.015 37.2  1.9  0.818 0.016 49.6  2.8
    truncated-l12    0.530 0.007 11.0 1.2  0.531 0.005 7.3  1.8  0.444 0.013 573.9 18.1 0.806 0.014 318.5 9.7
    capped-l1        0.533 0.003 0.6  0.1  0.531 0.005 0.7  0.2  0.450 0.014 108.5 10.5 0.806 0.014 87.2  6.2
    lsp              0.537 0.008 1.2  0.1  0.540 0.007 1.3  0.2  0.448 0.010 133.3 7.7  0.806 0.014 105.8 7.4
    mcp              0.530 0.008 1.0  0.1  0.534 0.006 0.5  0.1  0.444 0.013 92.5  6.1  0.806 0.014 85.2  7.3
    nnfn-prox        0.530 0.008 0.4  0.1  0.531 0.005 0.5  0.1  0.444 0.012 57.1  3.3  0.806 0.014 66.4  5.1
    nnfn             0.530 0.006 0.05 0.01 0.531 0.005 0.05 0.02 0.444 0.012 5.9   1.4  0.806 0.015 13.5  1.9
    """,
)

PUBLISHED: Mapping[str, Mapping[str, Published]] = {**TABLE_4, **TABLE_5, **TABLE_6}
