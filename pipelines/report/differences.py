"""The differences of two inputs: as text, as lines of JSON, as a page, and as files of a run."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from feedferry.pipelines.report.page_text import MAX_ROWS, short_text
from feedferry.pipelines.terminal.summary import LABEL_CHARS, Summary
from feedferry.schemas.errors import FINDINGS_EXIT
from feedferry.schemas.printable import printable
from feedferry.transforms.compare.comparison import Change, Comparer, Comparison, Difference
from feedferry.transforms.storage.atomic import whole_file, write_whole

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
            yield f"{'':<{_LABEL_CHARS}}{short_text(printable(field.text), _MAX_CHARS)}"


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
    from feedferry.pipelines.report.pages import render  # loads Jinja

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


VERIFICATION = "verification.json"
DIFFERENCES = "differences.jsonl"
"""Names of files in the folder of a run: the counts, and a line for each document that differs."""


class VerifiedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that differs from that of the target, and how."""

    url: str
    change: str
    fields: tuple[str, ...] = ()


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a comparison with the target; `first` are the first differences."""

    version: int = 1
    against: str
    counts: Comparison
    first: tuple[VerifiedDocument, ...] = ()

    @property
    def sums(self) -> dict[str, int]:
        """The documents of each kind of difference."""
        names = ("same", "added", "removed", "changed")
        return {name: getattr(self.counts, name) for name in names}

    @property
    def exit_code(self) -> int:
        return FINDINGS_EXIT if self.counts.has_findings else 0

    @property
    def figures(self) -> dict[str, int]:
        """The documents by result, those that are as they should be first."""
        counts = self.counts
        found = {label: getattr(counts, change.value) for change, label in VERIFY.items()}
        others = {"not in the sample": counts.not_sampled}
        return {"same": counts.same, **found, **{name: n for name, n in others.items() if n}}

    @property
    def text(self) -> str:
        """The results in words, without those that are nothing."""
        return ", ".join(f"{n:,} {name}" for name, n in self.figures.items() if n or name == "same")


def write_verification(
    folder: Path, against: str, comparer: Comparer, counts: Comparison
) -> Verification:
    """Write the differences, and then the counts, of which a reader concludes that it is whole."""
    with whole_file(folder / DIFFERENCES) as stream:
        for line in json_lines(comparer.differences(), VERIFY):
            stream.write(f"{line}\n".encode())
    first = tuple(map(_verified, islice(comparer.differences(), MAX_ROWS)))
    found = Verification(against=against, counts=counts, first=first)
    text = msgspec.json.format(msgspec.json.encode(found))
    write_whole(folder / VERIFICATION, text + b"\n", by_several=True)
    return found


def _verified(difference: Difference) -> VerifiedDocument:
    return VerifiedDocument(
        url=difference.url,
        change=VERIFY[difference.change],
        fields=tuple(field.text for field in difference.fields),
    )
