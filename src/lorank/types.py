"""Names for types that every room uses."""

from typing import Any

import numpy.typing as npt

# A numpy array of any shape and dtype; the docstring says which.
Array = npt.NDArray[Any]
