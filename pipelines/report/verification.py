"""The comparison of a run with its target, as files in the folder of the run."""

from pathlib import Path

import msgspec

from pipelines.report.differences import VERIFY, json_lines
from pipelines.report.page_text import MAX_ROWS
from transforms.compare.comparison import Comparer, Comparison, Difference
from transforms.storage.atomic import whole_file, write_by_several

VERIFICATION = "verification.json"
DIFFERENCES = "differences.jsonl"
"""Names of files in the folder of a run: the counts, and a line for each document that differs."""


class VerifiedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that differs from that of the target, and how."""

    url: str
    change: str
    fields: tuple[str, ...] = ()


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison with the target has found; `first` are the first differences."""

    version: int = 1
    against: str
    counts: Comparison
    first: tuple[VerifiedDocument, ...] = ()

    @property
    def exit_code(self) -> int:
        return 1 if self.counts.has_findings else 0

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
    rows = (row for _, row in zip(range(MAX_ROWS), comparer.differences(), strict=False))
    found = Verification(against=against, counts=counts, first=tuple(map(_verified, rows)))
    text = msgspec.json.format(msgspec.json.encode(found))
    write_by_several(folder / VERIFICATION, text + b"\n")
    return found


def _verified(difference: Difference) -> VerifiedDocument:
    return VerifiedDocument(
        url=difference.url,
        change=VERIFY[difference.change],
        fields=tuple(field.text for field in difference.fields),
    )
