"""What lorank raises when it is asked for something that cannot be done, and text that is safe to show."""


class InputError(ValueError):
    """Data or parameters that cannot be used; the message says what was wrong and what to do."""


class DuplicateError(InputError):
    """An entry that is given more than once."""


class MemoryLimitError(MemoryError):
    """A result that would not fit in memory; the message says how large it would be."""


def printable(text: str) -> str:
    """Text for a terminal, in which control characters and marks that turn the direction of writing are spelled out.

    Ids and model files come from others: an escape sequence in them could repaint the screen, or worse.
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def one_line(error: Exception) -> str:
    """The first words of an error, or its name where it says nothing."""
    return " ".join(str(error).split())[:200] or type(error).__name__
