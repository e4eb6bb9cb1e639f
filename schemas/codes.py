"""The codes of rejects, filtered records, notices and losses: their meaning, cause and cure.

The table is `codes.tsv`.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

KINDS = ("reject", "filtered", "notice", "loss")


class Code(NamedTuple):
    """A code of one of the `KINDS`; of a loss, the name of its field. The texts are Markdown."""

    kind: str
    name: str
    meaning: str
    cause: str
    cure: str


@cache
def all_codes() -> dict[tuple[str, str], Code]:
    """Return all codes by kind and name, in the order of the table."""
    text = files("feedferry.schemas").joinpath("codes.tsv").read_text("utf-8")
    rows = [Code(*line.split("\t")) for line in text.splitlines() if not line.startswith("#")]
    return {(code.kind, code.name): code for code in rows}


def find_code(kind: str, name: str) -> Code | None:
    """Return the meaning of a code, None if it is not known; it may be of a newer version.

    >>> find_code("reject", "url-missing").cure
    'Add `url`.'
    """
    return all_codes().get((kind, name.partition(" ")[0]))  # as in `unknown-command NAME`
