"""The differences of two inputs: as text, as lines of JSON, and as a page."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from pipelines.report.page_text import MAX_ROWS
from pipelines.terminal.summary import LABEL_CHARS, Summary
from schemas.printable import printable
from transforms.compare.comparison import Change, Comparison, Difference

VERSION = 1
Labels = Mapping[Change, str]
DIFF: Labels = {change: change.value for change in Change if change is not Change.UNKNOWN}
VERIFY: Labels = {
    Change.ADDED: "missing",
    Change.REMOVED: "not deleted",
    Change.CHANGED: "different",
    Change.UNKNOWN: "unknown",
}
"""The names of differences, by the verb."""

_LABEL_CHARS = 13
_MAX_CHARS = 300
_encode = msgspec.json.Encoder(order="sorted").encode


def text_lines(differences: Iterable[Difference], labels: Labels) -> Iterator[str]:
    """Yield a line for each document, and one for each field that differs."""
    for difference in differences:
        yield f"{labels[difference.change]:<{_LABEL_CHARS}}{printable(difference.url)}"
        for field in difference.fields:
            yield f"{'':<{_LABEL_CHARS}}{_short(printable(field.text))}"


def json_lines(differences: Iterable[Difference], labels: Labels) -> Iterator[str]:
    """Yield an object in JSON for each document."""
    for difference in differences:
        values = {
            "change": labels[difference.change],
            "fields": difference.fields,
            "url": difference.url,
        }
        yield _encode(values).decode()


def summary_json(counts: Comparison, labels: Labels) -> str:
    """Return the counts, the last line of JSON."""
    values = {**msgspec.to_builtins(counts), "version": VERSION}
    for change, label in labels.items():
        values[label.replace(" ", "_")] = values.pop(change.value)
    return _encode({"counts": values}).decode()


def summary_of(counts: Comparison, labels: Labels, names: tuple[str, str]) -> Summary:
    """Return the counts of both inputs, and those of the differences."""
    rows = tuple(
        (name, (side.documents, sum(side.records.values()), sum(side.rejects.values())))
        for name, side in zip(names, (counts.before, counts.after), strict=True)
    )
    lines = [
        *(
            ("reject", sample)
            for side in (counts.before, counts.after)
            for sample in side.reject_samples
        ),
        ("result", ", ".join(f"{count:,} {name}" for name, count in _figures(counts, labels))),
    ]
    columns = ("documents", "records", "rejected")
    return Summary(columns=columns, rows=rows, lines=tuple(lines), label_chars=LABEL_CHARS)


def differences_page(
    counts: Comparison,
    differences: Iterable[Difference],
    labels: Labels,
    names: tuple[str, str],
) -> bytes:
    """Return a page with the counts and the first differences."""
    from pipelines.report.pages import render  # loads Jinja

    rows = [(labels[row.change], row) for row in islice(differences, MAX_ROWS)]
    return render(
        "differences.html",
        title="Differences" if labels is DIFF else "Verification",
        before=names[0],
        after=names[1],
        has_findings=counts.has_findings,
        outcome="differences" if counts.has_findings else "no differences",
        figures=_figures(counts, labels),
        rejects=[
            (f"Rejects of {name}", side.reject_samples)
            for name, side in zip(names, (counts.before, counts.after), strict=True)
        ],
        rows=rows,
        total=counts.added + counts.removed + counts.changed + counts.unknown,
    )


def _figures(counts: Comparison, labels: Labels) -> list[tuple[str, int]]:
    figures = [
        ("same", counts.same),
        *((label, getattr(counts, change.value)) for change, label in labels.items()),
        ("with another ACL", counts.acl_changes),
    ]
    others = (("not in the input", counts.unmentioned), ("not in the sample", counts.not_sampled))
    return [*figures, *((label, count) for label, count in others if count)]


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} …"
