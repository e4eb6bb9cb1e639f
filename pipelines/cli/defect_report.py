"""What the user is told of rejects that defects of feedferry caused."""

import os
from collections.abc import Mapping

import click


def tell_defects(defects: Mapping[str, int], *, folder: str | None = None) -> None:
    """Say on stderr, in red on a terminal, how many records defects cost; nothing if none.

    `defects` counts them by the type of the exception; `folder` holds the rejects, if they are
    kept. `-q` does not hide this: it is an error.
    """
    if defects:
        color = False if os.environ.get("NO_COLOR") else None  # None: as the terminal is
        click.secho(_text(defects, folder), err=True, fg="red", color=color)


def _text(defects: Mapping[str, int], folder: str | None) -> str:
    count = sum(defects.values())
    types = ", ".join(f"{name} {number:,}" for name, number in sorted(defects.items()))
    records = "1 record was" if count == 1 else f"{count:,} records were"
    where = f" The rejects in {folder}/rejects/ with the code defect say where." if folder else ""
    return (
        f"feedferry: {records} rejected because of a defect of feedferry ({types}).{where}"
        " Other records are not affected. Please report this."
    )
