"""What lorank raises when it is asked for something that cannot be done."""


class InputError(ValueError):
    """Data or parameters that cannot be used; the message says what was wrong and what to do."""


class DuplicateError(InputError):
    """An entry that is given more than once."""


class MemoryLimitError(MemoryError):
    """A result that would not fit in memory; the message says how large it would be."""
