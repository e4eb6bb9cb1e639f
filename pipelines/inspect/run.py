"""`feedferry inspect`: what there is in files of records, counted, or shown in native form."""

import json
import logging
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from pathlib import Path

import click
import msgspec

from pipelines.cli import convert_options as shared
from pipelines.cli.convert_options import ConvertOptions, ReportFormat
from pipelines.cli.defect_report import tell_defects
from pipelines.cli.value_parsers import parse_number
from pipelines.convert.inputs import list_spans
from schemas.defect import defect_type, record_error
from schemas.errors import ConfigError
from schemas.feed import FULL
from schemas.membership import Membership, MembershipAction
from schemas.record import Action, Record
from schemas.reject import Reject, reject_record
from schemas.span import Span
from transforms.census import OTHERS, Census, Coded, FeedCount, count
from transforms.formats import NATIVE, Mode, ReadOptions, ReadResult
from transforms.formats.canonical import jsonl
from transforms.group_references import GroupCount, Groups
from transforms.sources import find_source
from transforms.sources.span_reader import SpanReader

VERSION = 1
MAX_NAMES = 10
"""Most MIME types, charsets or namespaces that are shown."""
MAX_GROUPS = 20
"""Most groups without a definition that are shown."""

_ACTIONS = (*(action.value for action in Action), MembershipAction.MEMBERSHIP.value)
_EMPTY: dict[str | None, str] = {
    FULL: "a full feed without records, which deletes all of its datasource"
}
_FOUND = 1
_LABEL_CHARS = 11
_COLUMN_CHARS = 12

_log = logging.getLogger(__name__)


class InspectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All that `inspect` is told; with a `head`, so many records are shown and none counted."""

    inputs: tuple[str, ...]
    from_format: str | None = None
    encoding: str = ""
    reading: ReadOptions = ReadOptions()
    head: int | None = None
    report_format: ReportFormat = ReportFormat.TEXT


def parse(words: Mapping[str, object]) -> InspectOptions:
    """Return the options of which `words` holds the texts, those of `convert` by the same rules.

    Raise ConfigError at the first that cannot be used.
    """
    known = {name: word for name, word in words.items() if name != "head"}
    told = shared.parse({**known, "output": "-", "to_format": NATIVE.name})
    source = find_source(told.from_format)
    if source is not None and not source.is_inspected:
        raise ConfigError(
            f"--from {told.from_format}: not for inspect, which starts no program; expected a"
            " format of files"
        )
    return InspectOptions(
        inputs=told.inputs,
        from_format=told.from_format,
        encoding=told.encoding or "",
        reading=_reading(told),
        head=parse_head(words.get("head")),
        report_format=told.report_format,
    )


def parse_head(word: object) -> int | None:
    """Return a number of records, None where none is given."""
    try:
        return None if word is None else parse_number(str(word), of="records", least=1)
    except ConfigError as exc:
        raise ConfigError(f"--head: {exc}") from exc


def run(options: InspectOptions) -> int:
    """Print what is in the inputs; return the exit code, 1 if there is something to mend."""
    with tempfile.TemporaryDirectory() as folder:
        spans = list_spans(
            options.inputs,
            from_format=options.from_format,
            spool=Path(folder, "stdin"),
            encoding=options.encoding,
        )
        with closing(_read(spans, options.reading)) as found:
            if options.head is not None:
                return show(found, options.head)
            census = count(found)
    tell_defects(census.defects)
    sources = [span.source for span in spans]
    is_text = options.report_format is ReportFormat.TEXT
    click.echo(as_text(census) if is_text else as_json_text(census, sources=sources))
    return _FOUND if census.has_findings else 0


def show(found: Iterable[ReadResult], head: int) -> int:
    """Print a line for each of the first records; say on stderr what is none."""
    shown = rejects = 0
    defects: Counter[str] = Counter()
    for one in found:
        line = _line(one)
        if isinstance(line, Reject):
            rejects += 1
            if (defect := defect_type(line)) is not None:
                defects[defect] += 1
            _log.warning("%s", line.message)
        elif line:
            click.echo(line, nl=False)
            shown += 1
        if shown == head:
            break
    tell_defects(defects)
    return _FOUND if rejects else 0


def as_json_text(census: Census, *, sources: list[str]) -> str:
    """The census as one indented document; all of it, and in the order of the text."""
    values = {"version": VERSION, "sources": sources, **msgspec.to_builtins(census)}
    return json.dumps(values, indent=2, ensure_ascii=False)


def as_text(census: Census) -> str:
    """The census as a table of records, then a line for each thing there is something to say of."""
    lines = [
        *_table(census),
        *_empty(census.feeds),
        *_coded("reject", census.rejects),
        *_coded("notice", census.notices),
        *_named("filtered", census.filtered),
        *_content(census),
        *_named("mimetype", census.mimetypes),
        *_named("charset", census.charsets),
        *_acls(census),
        *_groups(census.groups),
        *_duplicates(census),
    ]
    return "\n".join(lines)


def _reading(told: ConvertOptions) -> ReadOptions:
    return ReadOptions(
        zone=told.zone,
        mode=Mode.STRICT if told.strict else Mode.LENIENT,
        docids=shared.docids(told),
        max_token_bytes=told.max_token_bytes,
    )


def _read(spans: Iterable[Span], reading: ReadOptions) -> Generator[ReadResult, None, None]:
    for span in spans:
        yield from SpanReader(span, options=reading).results()


def _line(one: ReadResult) -> bytes | Reject:
    """The line of a record or membership, nothing for what is neither and no reject."""
    if isinstance(one, Reject):
        return one
    if not isinstance(one, Record | Membership):
        return b""
    try:
        return jsonl.line(one)
    except Exception as exc:
        error = record_error(exc)
        return reject_record(one, code=error.code, reason=error.reason, stage="write")


def _table(census: Census) -> list[str]:
    """A line for each feed, a column for each action, and the sums of both."""
    total: Counter[str] = Counter()
    for feed in census.feeds:
        total.update(feed.actions)
    actions = [action for action in _ACTIONS if action in total]
    rows = [(_name(feed), feed.actions) for feed in census.feeds]
    rows.append(("total", total))
    width = max(_LABEL_CHARS, *(len(name) + 2 for name, _ in rows))
    return [
        " " * width + "".join(_cell(action, action) for action in [*actions, "total"]),
        *(f"{name:<{width}}{_row(counts, actions)}" for name, counts in rows),
    ]


def _empty(feeds: Iterable[FeedCount]) -> list[str]:
    """A line for each feed without records; a full one deletes all of its datasource."""
    return [
        _line_of("empty", f"{_name(feed)}: {_EMPTY.get(feed.feedtype, 'a feed without records')}")
        for feed in feeds
        if not feed.actions
    ]


def _row(counts: Mapping[str, int], actions: list[str]) -> str:
    cells = [_cell(action, f"{counts.get(action, 0):,}") for action in actions]
    return "".join([*cells, _cell("total", f"{sum(counts.values()):,}")])


def _cell(head: str, text: str) -> str:
    return f"{text:>{max(_COLUMN_CHARS, len(head) + 2)}}"


def _name(feed: FeedCount) -> str:
    """What a feed is called: `datasource/feedtype`, with - for what is not stated."""
    if feed.datasource == OTHERS or feed.datasource is feed.feedtype:
        return feed.datasource or "-"
    return f"{_shown(feed.datasource or '-')}/{_shown(feed.feedtype or '-')}"


def _coded(label: str, counts: dict[str, Coded]) -> list[str]:
    return [
        _line_of(label, f"{code}: {coded.count:,}, as {coded.first}")
        for code, coded in counts.items()
    ]


def _named(label: str, counts: dict[str, int]) -> list[str]:
    """One line with the first of the counts, or none if there are no counts."""
    if not counts:
        return []
    shown = [f"{_shown(name)} {number:,}" for name, number in [*counts.items()][:MAX_NAMES]]
    others = len(counts) - len(shown)
    if others:
        more = "more than " if OTHERS in counts else ""
        shown.append(f"and {more}{others:,} other{'s' if others > 1 else ''}")
    return [_line_of(label, ", ".join(shown))]


def _content(census: Census) -> list[str]:
    sizes = census.content
    if not sizes.documents:
        return []
    text = (
        f"{sizes.documents:,}, {sizes.total:,} bytes as stored: "
        f"{sizes.least:,} to {sizes.most:,}, {sizes.mean:,} on average"
    )
    return [_line_of("content", text)]


def _acls(census: Census) -> list[str]:
    acls = census.acls
    if not acls.documents and not acls.alone:
        return [_line_of("acl", f"none, {acls.without:,} without")] * bool(acls.without)
    text = (
        f"{acls.documents:,} with, {acls.without:,} without, {acls.alone:,} alone; "
        f"{acls.barred:,} permit nobody"
    )
    return [
        _line_of("acl", text),
        *_named("principal", {name.lower(): number for name, number in acls.principals.items()}),
        *_named("namespace", acls.namespaces),
    ]


def _groups(groups: Groups) -> list[str]:
    """How groups stand, and those that are named without being defined, in a line each."""
    if not groups.memberships:
        text = f"{groups.named:,} named; no groups feed among the inputs defines any"
        return [_line_of("groups", text)] if groups.named else []
    text = (
        f"{groups.defined:,} defined, {groups.unnamed:,} of them named nowhere; "
        f"{groups.named:,} named, {len(groups.undefined):,} of them defined nowhere"
    )
    shown = [_line_of("undefined", _named_group(group)) for group in groups.undefined[:MAX_GROUPS]]
    others = len(groups.undefined) - len(shown)
    if others:
        shown.append(_line_of("undefined", f"and {others:,} more, which --format json lists"))
    return [_line_of("groups", text), *shown]


def _named_group(group: GroupCount) -> str:
    name = f"'{group.name}'" if group.name.isprintable() else repr(group.name)
    return f"{name} in {_shown(group.namespace)}: {group.named:,}"


def _duplicates(census: Census) -> list[str]:
    found = census.duplicates
    lines = []
    if found.repeated:
        lines.append(
            _line_of("duplicate", f"{found.repeated:,} of the added urls were added before")
        )
    if found.unremembered:
        text = f"{found.unremembered:,} urls were not compared with later ones: too many"
        lines.append(_line_of("duplicate", text))
    return lines


def _line_of(label: str, text: str) -> str:
    return f"{label:<{_LABEL_CHARS}}{text}"


def _shown(text: str) -> str:
    """The text, or how Python writes it if a terminal would act on it."""
    return text if text.isprintable() else repr(text)
