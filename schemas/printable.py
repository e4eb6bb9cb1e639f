"""Text that a terminal and a log show as it is."""


def printable(text: str, *, kept: str = "") -> str:
    r"""Return the text with its control, format and surrogate characters escaped, except `kept`.

    >>> printable("a\x1b[2Jb\u202ec.xml")
    'a\\x1b[2Jb\\u202ec.xml'
    """
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode()
        for char in text
    )
