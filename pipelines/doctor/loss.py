"""The losses of a conversion as text."""

from collections.abc import Sequence

from pipelines.doctor.table import aligned
from transforms.rules.adapt import Target
from transforms.rules.losses import LossRow

FLAGS = (
    *("from_format", "to_format", "feedtype", "datasource", "dialect", "empty_metadata"),
    *("default_mimetype", "allow_wide_deletes"),
)
"""The options of `convert` that decide what a target holds."""

_FOOTER = (
    "A field that stops the run is converted without by --accept-loss FIELD. A run stops at any"
    " other\nfield with --fail-on-loss FIELD. Rejects are kept, with their records."
)


def as_text(rows: Sequence[LossRow], target: Target, *, source: str | None) -> str:
    if not rows:
        return f"{source or 'any record'} to {target.format}: nothing is lost"
    head = ("what", "by default", "as", "detail")
    lines = [
        (row.item, row.effect.value, row.name, "; ".join(filter(None, (row.detail, flag_of(row)))))
        for row in rows
    ]
    return f"{aligned([head, *lines])}\n\n{_FOOTER}"


def flag_of(row: LossRow) -> str:
    """Return how a reject is avoided; the flags of losses are the same for all fields."""
    return "" if row.change.startswith(("--accept-loss", "--fail-on-loss")) else row.change
