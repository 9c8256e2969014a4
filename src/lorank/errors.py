"""What lorank raises when it is asked for something that cannot be done, and text that is safe to show."""

# Characters of a sentence at most.
LONGEST = 2000


class InputError(ValueError):
    """Data or parameters that cannot be used; the message says what was wrong and what to do."""

    def __str__(self) -> str:
        return shortened(super().__str__())


class DuplicateError(InputError):
    """An entry that is given more than once."""


class MemoryLimitError(MemoryError):
    """A result that would not fit in memory; the message says how large it would be."""


def printable(text: str) -> str:
    """Text for a terminal, in which control characters and marks that turn the direction of writing are spelled out.

    Ids and model files come from others: an escape sequence in them could repaint the screen, or worse.
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shortened(text: str) -> str:
    """A sentence without the middle of what it quotes where that is a megabyte: start and end say what to do."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def one_line(error: Exception) -> str:
    """The first words of an error, or its name where it says nothing."""
    return " ".join(str(error).split())[:200] or type(error).__name__
