"""The counts of `inspect` as text and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from feedferry.pipelines.terminal.summary import Summary, summary_text
from feedferry.schemas.feed import FULL
from feedferry.schemas.membership import MembershipAction
from feedferry.schemas.printable import printable
from feedferry.schemas.record import Action
from feedferry.transforms.inspect import OTHERS, CodeCount, FeedCount, InputCounts
from feedferry.transforms.rules.group_references import Groups

VERSION = 1
MAX_NAMES = 10
"""The most MIME types, charsets or namespaces that are shown."""
MAX_GROUPS = 20
"""The most groups without a definition that are shown."""

_ACTIONS = (*(action.value for action in Action), MembershipAction.MEMBERSHIP.value)
_LABEL_CHARS = 11
_Line = tuple[str, str]
"""A label and a text."""


def as_json_text(counts: InputCounts, *, sources: list[str]) -> str:
    """Return all counts as an indented document, in the order of the text."""
    values = {"version": VERSION, "sources": sources, **msgspec.to_builtins(counts)}
    return json.dumps(values, indent=2, ensure_ascii=False)


def as_text(counts: InputCounts) -> str:
    """Return the counts as a table of records, then a line for each other thing that was found."""
    total: Counter[str] = Counter()
    for feed in counts.feeds:
        total.update(feed.actions)
    actions = [action for action in _ACTIONS if action in total]
    named = [*((_feed_name(feed), feed.actions) for feed in counts.feeds), ("total", total)]
    rows = [
        (name, (*(by_action.get(action, 0) for action in actions), sum(by_action.values())))
        for name, by_action in named
    ]
    lines = (
        *_empty_feeds(counts.feeds),
        *_codes("reject", counts.rejects),
        *_codes("notice", counts.notices),
        *_names("filtered", counts.filtered),
        *_content(counts),
        *_names("mimetype", counts.mimetypes),
        *_names("charset", counts.charsets),
        *_acls(counts),
        *_groups(counts.groups),
        *_duplicates(counts),
    )
    columns = (*actions, "total")
    return summary_text(
        Summary(columns=columns, rows=tuple(rows), lines=lines, label_chars=_LABEL_CHARS)
    )


def _empty_feeds(feeds: Iterable[FeedCount]) -> Iterator[_Line]:
    """Yield a line for each feed without records; a full feed deletes all of its datasource."""
    for feed in feeds:
        if not feed.actions:
            kind, effect = ("a feed", "")
            if feed.feedtype == FULL:
                kind, effect = "a full feed", ", which deletes all of its datasource"
            yield "empty", f"{_feed_name(feed)}: {kind} without records{effect}"


def _feed_name(feed: FeedCount) -> str:
    """Return `datasource/feedtype`, with - for a missing part."""
    if feed.datasource == OTHERS or feed.datasource is feed.feedtype:
        return feed.datasource or "-"
    return f"{printable(feed.datasource or '-')}/{printable(feed.feedtype or '-')}"


def _codes(label: str, codes: dict[str, CodeCount]) -> Iterator[_Line]:
    for code, counted in codes.items():
        yield label, f"{code}: {counted.count:,}, as {counted.first}"
        yield from ((label, text) for text in counted.more)


def _names(label: str, counts: dict[str, int]) -> Iterator[_Line]:
    """Yield one line with the most frequent names, or none without counts."""
    names = [f"{printable(name)} {number:,}" for name, number in [*counts.items()][:MAX_NAMES]]
    others = len(counts) - len(names)
    if others:
        more = "more than " if OTHERS in counts else ""
        names.append(f"and {more}{others:,} other{'s' if others > 1 else ''}")
    if names:
        yield label, ", ".join(names)


def _content(counts: InputCounts) -> Iterator[_Line]:
    sizes = counts.content
    if sizes.documents:
        least, mean = f"{sizes.least:,} to {sizes.most:,}", f"{sizes.mean:,} on average"
        yield "content", f"{sizes.documents:,}, {sizes.total:,} bytes as stored: {least}, {mean}"


def _acls(counts: InputCounts) -> Iterator[_Line]:
    acls = counts.acls
    if acls.documents or acls.alone:
        numbers = f"{acls.documents:,} with, {acls.without:,} without, {acls.alone:,} alone"
        yield "acl", f"{numbers}; {acls.barred:,} permit no user"
        principals = {name.lower(): number for name, number in acls.principals.items()}
        yield from _names("principal", principals)
        yield from _names("namespace", acls.namespaces)
    elif acls.without:
        yield "acl", f"none, {acls.without:,} without"


def _groups(groups: Groups) -> Iterator[_Line]:
    """Yield a line of totals, and a line for each group that is named and not defined."""
    if not groups.memberships:
        if groups.named:
            yield "groups", f"{groups.named:,} named; no groups feed among the inputs defines any"
        return
    defined = f"{groups.defined:,} defined, {groups.unnamed:,} of them named nowhere"
    undefined = f"{groups.named:,} named, {len(groups.undefined):,} of them defined nowhere"
    yield "groups", f"{defined}; {undefined}"
    for each in groups.undefined[:MAX_GROUPS]:
        name, namespace = printable(each.name), printable(each.namespace)
        yield "undefined", f"'{name}' in {namespace}: {each.named:,}"
    if (others := len(groups.undefined) - MAX_GROUPS) > 0:
        yield "undefined", f"and {others:,} more, which --format json lists"


def _duplicates(counts: InputCounts) -> Iterator[_Line]:
    duplicates = counts.duplicates
    if duplicates.repeated:
        yield "duplicate", f"{duplicates.repeated:,} of the added urls were added before"
    if duplicates.unremembered:
        text = f"{duplicates.unremembered:,} urls were not compared with later ones: too many"
        yield "duplicate", text
