"""The output of `rejects list`: a table of all codes, or a line for each chosen reject."""

from collections import Counter
from collections.abc import Iterable, Iterator

from feedferry.pipelines.rejects.run_rejects import RunReject
from feedferry.schemas.printable import printable
from feedferry.transforms.storage.run_folders.mirrors import shown

_COLUMNS = ("rejects", "new", "accepted", "replayed")
_INDENT = "  "
_NONE = "no rejects"


def reject_table(rejects: Iterable[RunReject]) -> Iterator[str]:
    """Yield a line for each code with its counts, and below it the first new reject of the code."""
    counts: dict[str, Counter[str]] = {}
    samples: dict[str, RunReject] = {}
    for found in rejects:
        code = found.reject.code
        count = counts.setdefault(code, Counter())
        count["rejects"] += 1
        count[found.state] += 1
        if code not in samples or (found.is_new and not samples[code].is_new):
            samples[code] = found
    if not counts:
        yield _NONE
        return
    width = max(len(code) for code in (*counts, "total"))
    yield f"{'code':<{width}}" + "".join(f"{name:>10}" for name in _COLUMNS)
    total = Counter[str]()
    for code, count in sorted(counts.items()):
        total += count
        yield f"{code:<{width}}" + "".join(f"{count[name]:>10,}" for name in _COLUMNS)
        sample = samples[code]
        yield f"{_INDENT}{sample.number}: {printable(sample.reject.message)}"
    if len(counts) > 1:
        yield f"{'total':<{width}}" + "".join(f"{total[name]:>10,}" for name in _COLUMNS)


def reject_lines(rejects: Iterable[RunReject]) -> Iterator[str]:
    """Yield a line for each reject, with its number first; the run stands before its first one."""
    run = None
    for found in rejects:
        if found.run != run:
            run = found.run
            yield f"{shown(run)}:"
        reject = found.reject
        state = "" if found.is_new else f", {found.state}"
        yield f"{_INDENT}{found.number}: {reject.code}{state}: {printable(reject.message)}"
    if run is None:
        yield _NONE
