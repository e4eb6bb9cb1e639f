"""Measure what each step costs on records that vary, in processor time of this process.

In the folder `tests`: `python -m benchmarks.steps [WORD...]`, for the steps whose label has one of
the words. Each record has one to eight metadata of 30 names, a content, and mostly an ACL of one to
six principals that inherits from one of 900 folders. `step` is the step alone, applied to records
that were read before. `convert` is a conversion to a GSA feed with the step, less one without steps
in which records go one by one too, that is run just before: the median of the differences.
"""

import argparse
import base64
import gc
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from statistics import median

import msgspec

from feedferry.pipelines.convert.inputs.step_inputs import SpanInputs
from feedferry.schemas.account import Account
from feedferry.schemas.errors import FeedferryError
from feedferry.schemas.record import Record
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import BATCH_RECORDS, Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.formats import ReadOptions, WriteOptions
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.steps import Steps, read_steps

_FOLDERS, _PEOPLE, _NAMES = 900, 6000, 30
_HOST = "http://docs.example.com/"
_WORDS = ("harbour", "tide", "crew", "Zürich", "größe", "of", "the", "and", "a", "by", "quay")

STEPS = {
    "keep url": "keep: {url: 'http://docs.example.com/*'}",
    "drop url, two": "drop: {url: ['*.tmp', 're:.*/private/.*']}",
    "drop mimetype": "drop: {mimetype: image/*}",
    "keep datasource": "keep: {datasource: 'd*'}",
    "drop action": "drop: {action: update}",
    "drop acl": "drop: {acl: absent}",
    "drop principal": "drop: {principal: 'OTHER\\*'}",
    "drop metadata": "drop: {metadata: {name3: '*secret*', name4: 're:x.*'}}",
    "drop modified": "drop: {modified_before: 2001-01-01}",
    "drop size": "drop: {larger_than: 1MB}",
    "drop all": "drop: {mimetype: text/*, principal: 'EXAMPLE\\*', metadata: {name3: '*tide*'}}",
    "urls prefix": f"urls: {{rewrite: [['{_HOST}', 'https://new.example.com/']]}}",
    "urls re": f"urls: {{rewrite: [['re:{_HOST}(.*)', 'https://new.example.com/\\1']]}}",
    "urls other": "urls: {rewrite: [['http://other.example.com/', 'https://new.example.com/']]}",
    "metadata names": "metadata: {rename: {name1: title}, drop: 'name2*', set: {site: a}}",
    "metadata split": "metadata: {split: {name5: and}}",
    "metadata values": "metadata: {values: {name6: values.csv}}",
    "metadata move": "metadata: {move: {'metadata:name7': title, 'metadata:name8': 'field:f'}}",
    "principals re": "principals: {rewrite: [['EXAMPLE\\*', '*@example.com']]}",
    "principals table": "principals: {table: people.csv}",
    "principals deny": "principals: {table: people.csv, unmapped: deny}",
    "principals case": "principals: {case: lower, namespaces: {Default: people}}",
    "acl effective": "acl: {inexact: deny}",
    "acl groups": "acl: {groups: groups.xml, inexact: deny}",
    "three": "[urls prefix, principals re, metadata names]",
}
"""One step, or in brackets the labels of several."""


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of the labels of steps")
    parser.add_argument("--size", type=int, default=20_000, help="records")
    parser.add_argument("--repeat", type=int, default=3, help="runs")
    options = parser.parse_args(words)
    labels = [
        label
        for label in STEPS
        if not options.words or any(word in label for word in options.words)
    ]
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as name:
        _measure(Path(name), labels, options.size, options.repeat)


def _measure(folder: Path, labels: Sequence[str], size: int, repeat: int) -> None:
    feed = folder / "feed.xml"
    with feed.open("w", encoding="utf-8") as stream:
        stream.writelines(varied_feed(Random(3411), size))
    _write_tables(folder)
    span = Span(source=feed.name, path=str(feed), format="gsa-feed")
    request: SpanRequest[None] = SpanRequest(span=span)
    with closing(read_span(request)) as results:
        stored = [msgspec.msgpack.encode(i) for i in singly(results) if isinstance(i, Record)]
    steps = {label: _prepared(folder, span, label) for label in labels}
    alone: dict[str, list[float]] = {label: [] for label in labels}
    more: dict[str, list[float]] = {label: [] for label in labels}
    bare = []
    for label, (listed, work) in [*steps.items()] * repeat:
        alone[label].append(_apply(listed, work, stored))
        bare.append(_convert(span, Steps(), folder))
        more[label].append(_convert(span, listed, work) - bare[-1])
    micros = 1e6 / len(stored)
    print(f"one by one, without steps: {min(bare) * micros:.1f} µs a record")
    print(f"{'step':20}{'step':>9}{'convert':>12}")
    for label in labels:
        of_step, of_all = min(alone[label]) * micros, median(more[label]) * micros
        print(f"{label:20}{of_step:>6.1f} µs{of_all:>9.1f} µs")


def _prepared(folder: Path, span: Span, label: str) -> tuple[Steps, Path]:
    """Return the steps of a label, and the folder in which they are prepared."""
    entries = STEPS[label]
    named = entries.strip("[]").split(", ") if entries.startswith("[") else [label]
    path = folder / "steps.yaml"
    path.write_text("transform:\n" + "".join(f"- {STEPS[name]}\n" for name in named), "utf-8")
    steps, work = read_steps(path), folder / label.replace(" ", "-").replace(",", "")
    work.mkdir()
    steps.prepare(SpanInputs([span], ReadOptions()), work)
    return steps, work


def _apply(steps: Steps, work: Path, stored: Sequence[bytes]) -> float:
    """Return the time that the steps take for records that no one has looked at before."""
    applied, decode, taken = steps.make(work), msgspec.msgpack.Decoder(Record).decode, 0.0
    gc.disable()
    for first in range(0, len(stored), 1000):
        records = [*map(decode, stored[first : first + 1000])]
        taken += _timed(partial(deque, map(applied.apply, records), maxlen=0))
    gc.enable()
    return taken


def _convert(span: Span, steps: Steps, work: Path) -> float:
    settings = Settings(
        folder=tempfile.mkdtemp(dir=work),
        local_folder=str(work),
        target=Target(format="gsa-feed"),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 30,
        batch_records=BATCH_RECORDS if steps.steps else 0,
        steps=steps,
    )
    accounts: list[Account] = []
    taken = _timed(lambda: accounts.append(convert(span, settings)))
    if accounts[0].stopped is not None:
        raise FeedferryError(accounts[0].stopped)
    return taken


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def varied_feed(chance: Random, count: int) -> Iterator[str]:
    """Yield a feed whose records name few folders and people often, and most seldom."""
    feedtype = "<feedtype>incremental</feedtype>"
    yield f"<gsafeed>\n<header><datasource>docs</datasource>{feedtype}</header>\n<group>\n"
    for number in range(_FOLDERS):
        yield f'<acl url="{_HOST}f{number}/" inheritance-type="child-overrides">'
        yield from (_principal(chance) for _ in range(chance.randrange(1, 4)))
        yield "</acl>\n"
    for number in range(count):
        yield _record(chance, number)
    yield "</group>\n</gsafeed>\n"


def _record(chance: Random, number: int) -> str:
    folder, parent = _often(chance, _FOLDERS), ""
    if chance.random() < 0.7:
        parent = f' inheritance-type="leaf-node" inherit-from="{_HOST}f{folder}/"'
    principals = "".join(_principal(chance) for _ in range(chance.randrange(1, 7)))
    metadata = "".join(
        f'<meta name="name{name}" content="{_text(chance, 1, 6)} {number % 97}"/>'
        for name in chance.sample(range(_NAMES), chance.randrange(1, 9))
    )
    acl = f"<acl{parent}>{principals}</acl>" if chance.random() < 0.9 else ""
    return (
        f'<record url="{_HOST}f{folder}/{number}.html?a={number % 7}&amp;b" mimetype="text/html"'
        f' last-modified="Tue, 06 Nov 2007 12:{number % 60:02}:{number % 59:02} GMT">{acl}'
        f"<metadata>{metadata}</metadata>{_content(chance)}</record>\n"
    )


def _principal(chance: Random) -> str:
    scope = chance.choice(("user", "user", "group"))
    access = "deny" if chance.random() < 0.2 else "permit"
    name = f"EXAMPLE\\{scope}{_often(chance, _PEOPLE)}"
    return f'<principal scope="{scope}" access="{access}" namespace="Default">{name}</principal>'


def _content(chance: Random) -> str:
    text = _text(chance, 20, 60)
    match chance.randrange(4):
        case 0:
            return f"<content>{text}</content>"
        case 1:
            return f"<content><![CDATA[<p>{text}</p>]]></content>"
        case 2:
            data = base64.b64encode(text.encode() * 8).decode()
            return f'<content encoding="base64binary">{data}</content>'
    data = base64.b64encode(zlib.compress(text.encode() * 8)).decode()
    return f'<content encoding="base64compressed">{data}</content>'


def _often(chance: Random, most: int) -> int:
    """Return a number below `most`, of which a tenth are named in a third of the places."""
    return chance.randrange(most // 10 if chance.random() < 0.3 else most)


def _text(chance: Random, least: int, most: int) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randrange(least, most)))


def _write_tables(folder: Path) -> None:
    """Write new names of all users, texts of a tenth of the values, and groups of ten users."""
    people = (f"EXAMPLE\\user{number},u{number}@example.com\n" for number in range(_PEOPLE))
    (folder / "people.csv").write_text("".join(people), "utf-8")
    values = (f"{word} {number},{word}\n" for word in _WORDS for number in range(97))
    (folder / "values.csv").write_text("".join(values), "utf-8")
    groups = (
        f"<membership>{_member('GROUP', number)}<members>"
        + "".join(_member("USER", number * at % _PEOPLE) for at in range(3, 13))
        + "</members></membership>\n"
        for number in range(0, _PEOPLE, 2)
    )
    (folder / "groups.xml").write_text(f"<xmlgroups>\n{''.join(groups)}</xmlgroups>\n", "utf-8")


def _member(scope: str, number: int) -> str:
    name = f"EXAMPLE\\{scope.lower()}{number}"
    return f'<principal namespace="Default" scope="{scope}">{name}</principal>'


if __name__ == "__main__":
    main()
