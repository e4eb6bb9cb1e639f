"""The message about records that defects of feedferry cost."""

import os
from collections.abc import Mapping

import click


def print_defects(defects: Mapping[str, int], *, folder: str | None = None) -> None:
    """Print how many records were rejected because of defects, in red on a terminal.

    `defects` counts them by the type of the exception; `folder` holds the rejects, if they are
    stored. `-q` does not suppress this message, because it is an error.
    """
    if defects:
        color = False if os.environ.get("NO_COLOR") else None  # None: only on a terminal
        click.secho(_text(defects, folder), err=True, fg="red", color=color)


def _text(defects: Mapping[str, int], folder: str | None) -> str:
    count = sum(defects.values())
    types = ", ".join(f"{name} {number:,}" for name, number in sorted(defects.items()))
    records = "1 record was" if count == 1 else f"{count:,} records were"
    where = f" See the rejects with the code defect in {folder}/rejects/." if folder else ""
    return (
        f"feedferry: {records} rejected because of a defect of feedferry ({types}).{where}"
        " Other records are not affected. Please report this."
    )
