"""Random conversions, by columns and one by one: nothing in their results may differ.

`PYTHONPATH=tests python -m support.varied_conversions` converts 100,000 random feeds. The flag
`--kind` names another source. A conversion follows from its kind and its seed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.step_inputs import SpanInputs
from feedferry.schemas.account import Account, merge
from feedferry.schemas.errors import FeedferryError
from feedferry.schemas.notice import REFUSED
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.file_spans import begin, cut
from feedferry.transforms.formats import (
    ContentOptions,
    Docids,
    FeedOptions,
    ReadOptions,
    StreamOptions,
)
from feedferry.transforms.formats.opensearch.opensearch_format import OpensearchOptions
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources import SourceConfig
from feedferry.transforms.sources.database.mapping.row_mapping import DATABASE
from feedferry.transforms.sources.files import sign_path
from feedferry.transforms.sources.listing import LISTING, write_listing
from feedferry.transforms.sources.tree.folders.walk import list_tree
from feedferry.transforms.steps import read_steps
from support.batches import SIZES, Conversion, by_parser, new_folder, span_conversion
from support.runs import ROOT
from support.varied_feeds import varied_feed
from support.varied_sources import damaged, varied_items, varied_listing, varied_rows, varied_tree

_NAMED: dict[str, Any] = {"datasource": "d", "feedtype": "incremental"}
TARGETS = (
    *(Target(format="gsa-feed"),) * 4,
    Target(format="gsa-feed", **_NAMED),
    Target(format="gsa-feed", urls="strict", default_mimetype="text/html"),
    Target(format="gsa-feed", own=(FeedOptions(dialect="5.0"),)),
    Target(format="gsa-feed", own=(FeedOptions(empty_metadata="placeholder"),)),
    Target(format="gsa-feed", own=(ContentOptions(content_encoding="base64"),)),
    Target(format="gsa-feed", own=(ContentOptions(content_encoding="zlib"),)),
    *(Target(format="thunderstone"),) * 2,
    *(Target(format="jsonl"),) * 2,
    *(Target(format="avro"),) * 2,
    Target(format="avro", datasource="other", feedtype="full"),
    *(Target(format="opensearch"),) * 4,
    Target(format="opensearch", own=(OpensearchOptions(pipeline="attachment"),)),
)
STEPS = (
    "urls: {rewrite: [['http://w.example.com/', 'https://new.example.com/n/']]}",
    "urls: {rewrite: [['re:(.*)[?]x=1&y=(.)', '\\1/\\2']]}",
    "metadata: {rename: {name1: z}, drop: 'name2', set: {site: a}}",
    "metadata: {move: {'metadata:author': title}, split: {name3: 'o'}}",
    "principals: {rewrite: [['ACME\\*', '*@acme.example.com'], ['re:u(.)', 'v\\1']]}",
    "principals: {rewrite: [['ACME\\u1*', 'x*']], unmapped: deny}",
    *("acl: effective", "acl: {inexact: deny}", "keep: {url: '*x=1*'}", "drop: {url: '*y=3'}"),
    *("drop: {acl: absent}", "drop: {'metadata': {name1: 'a*'}}", "keep: {mimetype: 'text/*'}"),
    *("drop: {modified_after: 2007-11-06T12:45:30}", "drop: {principal: 'ACME\\u2*'}"),
    *("content: {drop: 'text/*'}", "content: {utf8: declared}", "drop: {action: delete}"),
)
RUNS = "runs"
"""The kind of whole runs, with two workers; each has many feeds."""

_FEEDS_OF_A_RUN = 40
_BY_COLUMNS = "from feedferry.pipelines.cli.main import main; raise SystemExit(main())"
_BY_PARSER = f"from support.batches import by_parser\nwith by_parser():\n    {_BY_COLUMNS}"
_RUN_FLAGS = (
    *("--to gsa-feed", "--to gsa-feed --dialect 5.0", "--to thunderstone", "--to jsonl"),
    *("--to avro", "--to gsa-feed --datasource d --feedtype incremental --max-chunk-bytes 10000"),
    *("--to opensearch", "--to opensearch --datasource d --feedtype incremental"),
)
_ACCEPT_ALL = ("--accept-loss", ",".join(sorted(REFUSED)), "--accept-holes", "--allow-empty-full")
_SPAN_BYTES = (700, 2000, 5000)
_SPAN_NUMBER = re.compile(rb',?"span":\d+')
_SLICE = 500
"""Seeds between two lines of progress."""


class Case(NamedTuple):
    """A source, and how it is converted: with batches of each of the sizes."""

    span: Span
    target: Target
    sizes: tuple[int, ...]
    stated: dict[str, Any]


class Source(NamedTuple):
    """A span, and the configuration of its source if it has one."""

    span: Span
    config: SourceConfig | None = None


def _of_bytes(make: Callable[[Random], bytes], format_: str) -> Callable[[Random, Path], Source]:
    def write(random: Random, folder: Path) -> Source:
        path = folder / "source"
        path.write_bytes(make(random))
        span = Span(source="f", path=str(path), format=format_)
        return Source(replace(span, signature=sign_path(str(path))))

    return write


def _archive(random: Random, folder: Path) -> Source:
    """An archive of the records of a feed."""
    [format_] = random.choices(("avro", "jsonl"))
    span, _ = _of_bytes(varied_feed, "gsa-feed")(random, folder)
    with by_parser():
        archived = _outcome(span, Target(format=format_), batch_records=0)
    files = archived.files if isinstance(archived, Conversion) else {}
    chunks = [data for name, data in sorted(files.items()) if "rejects" not in name]
    data = damaged(random, chunks[0] if chunks else b"")
    return _of_bytes(lambda _: data, format_)(random, folder)


def _rows(random: Random, folder: Path) -> Source:
    return Source(Span(source="f", format=DATABASE), varied_rows(random, folder / "rows.db"))


def _files(random: Random, folder: Path) -> Source:
    tree, listing = varied_tree(random, folder / "root"), folder / "listing"
    write_listing(list_tree(tree), listing)
    return Source(Span(source="f", path=str(listing), format=LISTING), tree)


KINDS: dict[str, Callable[[Random, Path], Source]] = {
    "feeds": _of_bytes(varied_feed, "gsa-feed"),
    "items": _of_bytes(varied_items, "thunderstone"),
    "listings": _of_bytes(varied_listing, "lister-stream"),
    "archives": _archive,
    "rows": _rows,
    "files": _files,
}
"""What writes a source into a folder."""


def case_of(kind: str, seed: int, folder: Path) -> Case:
    """Write the source of a seed into a folder."""
    random = Random(f"{kind} {seed}")
    span, config = KINDS[kind](random, folder)
    stated: dict[str, Any] = {} if config is None else {"sources": {"f": config}}
    target = random.choice(TARGETS)
    if kind not in {"feeds", "archives"} and target.format == "gsa-feed":
        target = replace(target, **_NAMED)
    stated["reading"] = _reading(random, kind)
    stated["max_chunk_bytes"] = random.choice((1 << 20, 1 << 20, 20_000, 3000))
    stated["max_chunk_records"] = random.choice((None, None, None, 3))
    entries = random.sample(STEPS, random.choice((0, 0, 1, 1, 2)))
    if target.format == "opensearch":
        entries += ["acl: decision"] * (random.random() < 0.8)
    if entries:
        stated |= _prepared(span, entries, folder, stated)
    return Case(span, target, (random.choice((0, *SIZES)), 1024), stated)


def _reading(random: Random, kind: str) -> ReadOptions:
    most = random.choice((20 << 20, 20 << 20, 20 << 20, 30))
    own: tuple[StreamOptions, ...] = ()
    if kind == "listings":
        rules = (
            Docids(),
            Docids(base_url="http://adaptor.example.com/doc/"),
            Docids(template="https://docs.example.com/view?id={id}"),
        )
        own = (StreamOptions(docids=random.choice(rules), strict=random.random() < 0.3),)
    used = frozenset({"feedtype"}) if random.random() < 0.5 else frozenset[str]()
    return ReadOptions(max_content_bytes=most, used_header=used, own=own)


def _prepared(
    span: Span, entries: Sequence[str], folder: Path, stated: dict[str, Any]
) -> dict[str, Any]:
    """Steps that have read the source, as far as they need to."""
    text = "".join(f"- {entry}\n" for entry in entries)
    (folder / "steps.yaml").write_text(f"transform:\n{text}")
    steps = read_steps(folder / "steps.yaml")
    if steps.reading_step() and "sources" in stated:  # such a run is refused
        return {}
    try:
        with by_parser():
            steps.prepare(SpanInputs([span], stated["reading"]), folder)
    except FeedferryError:
        return {}
    return {"steps": steps, "local_folder": str(folder)}


def difference(kind: str, seed: int) -> str:
    """Return what differs between the results of a seed; an empty text if nothing does."""
    with new_folder() as name:
        folder = Path(name)
        try:
            if kind == RUNS:
                return next(_differences_of_runs(seed, folder), "")
            case = case_of(kind, seed, folder)
            return next(_differences(case, Random(seed)), "")
        except AssertionError:
            raise
        except Exception as exc:  # a defect of the program or of this module: with its seed
            raise AssertionError(f"{kind} {seed}: {exc!r}") from exc


def _differences(case: Case, random: Random) -> Iterator[str]:
    """Yield how results with batches differ from those without, and parts from the whole."""
    whole = _Results(case, case.span)
    yield from whole.differences
    span_bytes, read_parts = random.choice(_SPAN_BYTES), random.choice((_parts, _parts, _cut_parts))
    if random.random() < 0.4 or not case.span.path or case.span.format == LISTING:
        return
    parts = []
    for part in read_parts(case._replace(sizes=(random.choice(case.sizes),)), span_bytes):
        yield from part.differences
        parts.append(part)
    if parts and whole.is_whole and all(part.is_whole for part in parts):
        found, expected = merge([part.account for part in parts]), whole.account
        if (counts := _counts(found)) != _counts(expected):
            yield f"{counts} in spans of {span_bytes} bytes; expected {_counts(expected)}"
        lines = [line for part in parts for line in part.lines]
        if lines != whole.lines:
            yield _described("lines", b"\n".join(lines), b"\n".join(whole.lines))


def _parts(case: Case, span_bytes: int) -> Iterator["_Results"]:
    """Yield the results of the spans of a file, each of which begins where another has ended."""
    spans = begin(case.span, span_bytes=span_bytes, options=case.stated["reading"])
    following = spans[0] if spans[0].grid else None
    while following is not None:
        results = _Results(case, following)
        yield results
        following = results.account.next


def _cut_parts(case: Case, span_bytes: int) -> Iterator["_Results"]:
    """Yield the results of the spans of a file that is cut before any of them is converted."""
    spans = cut(case.span, span_bytes=span_bytes, options=case.stated["reading"])
    return (_Results(case, span) for span in spans)


class _Results:
    """The results of a span without batches, and how those with batches differ from them."""

    def __init__(self, case: Case, span: Span) -> None:
        with by_parser():
            self._single = _outcome(span, case.target, batch_records=0, **case.stated)
        batched = [
            (size, _outcome(span, case.target, batch_records=size, **case.stated))
            for size in case.sizes
        ]
        self.differences = [
            f"batches of {size}, {span.name}: {_compared(found, self._single)}"
            for size, found in batched
            if found != self._single
        ]
        self.account = Account(stopped="error")
        if isinstance(self._single, Conversion):
            self.account = msgspec.json.decode(self._single.account, type=Account)
        is_read = "unknown-format" not in self.account.reject_codes  # else its parts are read on
        self.is_whole = self.account.stopped is None and is_read

    @property
    def lines(self) -> list[bytes]:
        """The records of JSON Lines without their spans: chunks of parts may have fewer of them."""
        files = self._single.files if isinstance(self._single, Conversion) else {}
        names = (chunk.path.rpartition("/")[2] for chunk in self.account.chunks)
        chunks = (files[name] for name in names if name.endswith(".jsonl"))
        return [_SPAN_NUMBER.sub(b"", line) for chunk in chunks for line in chunk.splitlines()]


def _outcome(span: Span, target: Target, **stated: Any) -> Conversion | str:
    """A conversion, or the error that ends it."""
    try:
        return span_conversion(span, target, **stated)
    except FeedferryError as exc:
        return exc.text


def _counts(account: Account) -> dict[str, object]:
    names = ("read", "written", "rejected", "reject_codes", "filtered", "changed", "bytes_read")
    losses = {field: loss.count for field, loss in account.losses.items() if field != "feedtype"}
    return {name: getattr(account, name) for name in names} | {"losses": losses}


def _compared(found: Conversion | str, expected: Conversion | str) -> str:
    if isinstance(found, str) or isinstance(expected, str):
        return f"{found!r}; expected {expected!r}"
    for name in sorted({*found.files, *expected.files}):
        pair = found.files.get(name, b""), expected.files.get(name, b"")
        if pair[0] != pair[1]:
            return _described(name, *pair)
    return _described("account", found.account, expected.account)


def _described(name: str, found: bytes, expected: bytes) -> str:
    pairs = zip(found, expected, strict=False)
    at = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(found), len(expected)))
    part = slice(max(at - 200, 0), at + 200)
    return f"{name} at {at}: {found[part]!r}; expected {expected[part]!r}"


def _differences_of_runs(seed: int, folder: Path) -> Iterator[str]:
    """Yield how a run with two workers differs from one without batches; both read a folder."""
    random = Random(f"{RUNS} {seed}")
    for number in range(_FEEDS_OF_A_RUN):
        path = folder / f"feeds/{number:02}.xml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(varied_feed(random))
    flags = [*random.choice(_RUN_FLAGS).split(), "--span-bytes", str(random.choice(_SPAN_BYTES))]
    if random.random() < 0.5:
        (folder / "steps.yaml").write_text(f"- {random.choice(STEPS)}\n")
        flags += ["--transform", "steps.yaml"]
    single = _run(folder, "single", _BY_PARSER, *flags, "--jobs", "1")
    batched = _run(folder, "batched", _BY_COLUMNS, *flags, "--jobs", "2")
    for name in sorted({*single, *batched}):
        pair = batched.get(name, b""), single.get(name, b"")
        if pair[0] != pair[1]:
            yield f"{' '.join(flags)}: {_described(name, *pair)}"


def _run(folder: Path, output: str, code: str, *flags: str) -> dict[str, bytes]:
    """Return the exit code of a run, its account, and the bytes of its chunks and rejects."""
    words = ["convert", "feeds", "-o", output, "--progress", "none", *_ACCEPT_ALL, *flags]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, "-c", code, *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)
    files = {
        path.relative_to(folder / output).as_posix(): path.read_bytes()
        for part in ("chunks", "rejects")
        for path in (folder / output / part).rglob("*")
        if path.is_file()
    }
    files["exit code"] = str(ended.returncode).encode()
    report = folder / output / "report.json"
    account = json.loads(report.read_bytes())["account"] if report.exists() else None
    messages = b"" if account else ended.stderr.replace(output.encode(), b"")
    return {**files, "account": json.dumps(account).encode(), "messages": messages}


def main(words: Sequence[str] | None = None) -> int:
    """Convert the sources of all seeds; print those whose results differ."""
    parser = argparse.ArgumentParser(prog="python -m support.varied_conversions")
    parser.add_argument("--kind", choices=[*KINDS, RUNS], default="feeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100_000, help="the number of seeds")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--show", action="store_true", help="print the case of the first seed")
    options = parser.parse_args(words)
    if options.show:
        with new_folder() as folder:
            case = case_of(options.kind, options.first, Path(folder))
            print(case, "\n", Path(case.span.path).read_bytes() if case.span.path else "")
        return 0
    seeds = range(options.first, options.first + options.count)
    slices = [seeds[at : at + _SLICE] for at in range(0, len(seeds), _SLICE)]
    begun, failures = time.monotonic(), 0
    with get_context("spawn").Pool(options.processes) as pool:
        for done, found in enumerate(pool.imap(partial(_slice, options.kind), slices), start=1):
            failures += len(found)
            print("".join(f"{text}\n" for text in found), end="")
            seconds = time.monotonic() - begun
            print(f"{slices[done - 1].stop}: {failures} differ; {seconds:.0f} s", flush=True)
    return 1 if failures else 0


def _slice(kind: str, seeds: range) -> list[str]:
    """Return the differences of some seeds."""
    found = []
    for seed in seeds:
        try:
            text = difference(kind, seed)
        except AssertionError as exc:
            text = str(exc)
        if text:
            found.append(f"{kind} {seed}: {text}")
    return found


if __name__ == "__main__":
    sys.exit(main())
