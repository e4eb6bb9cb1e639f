"""The counts of `inspect` as text and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from pipelines.terminal.summary import count_table
from schemas.feed import FULL
from schemas.membership import MembershipAction
from schemas.printable import printable
from schemas.record import Action
from transforms.inspect import OTHERS, CodeCount, FeedCount, InputCounts
from transforms.rules.group_references import Groups

VERSION = 1
MAX_NAMES = 10
"""The most MIME types, charsets or namespaces that are shown."""
MAX_GROUPS = 20
"""The most groups without a definition that are shown."""

_ACTIONS = (*(action.value for action in Action), MembershipAction.MEMBERSHIP.value)
_LABEL_CHARS = 11


def as_json_text(counts: InputCounts, *, sources: list[str]) -> str:
    """Return all counts as an indented document, in the order of the text."""
    values = {"version": VERSION, "sources": sources, **msgspec.to_builtins(counts)}
    return json.dumps(values, indent=2, ensure_ascii=False)


def as_text(counts: InputCounts) -> str:
    """Return the counts as a table of records, then a line for each other thing that was found."""
    lines = [
        *_table(counts),
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
    ]
    return "\n".join(lines)


def _table(counts: InputCounts) -> list[str]:
    """Return a line for each feed, a column for each action, and the sums of both."""
    total: Counter[str] = Counter()
    for feed in counts.feeds:
        total.update(feed.actions)
    actions = [action for action in _ACTIONS if action in total]
    named = [*((_feed_name(feed), feed.actions) for feed in counts.feeds), ("total", total)]
    rows = [
        (name, [*(by_action.get(action, 0) for action in actions), sum(by_action.values())])
        for name, by_action in named
    ]
    return count_table([*actions, "total"], rows, label_chars=_LABEL_CHARS)


def _empty_feeds(feeds: Iterable[FeedCount]) -> Iterator[str]:
    """Yield a line for each feed without records; a full feed deletes all of its datasource."""
    for feed in feeds:
        if not feed.actions:
            kind, effect = ("a feed", "")
            if feed.feedtype == FULL:
                kind, effect = "a full feed", ", which deletes all of its datasource"
            yield _line("empty", f"{_feed_name(feed)}: {kind} without records{effect}")


def _feed_name(feed: FeedCount) -> str:
    """Return `datasource/feedtype`, with - for a missing part."""
    if feed.datasource == OTHERS or feed.datasource is feed.feedtype:
        return feed.datasource or "-"
    return f"{printable(feed.datasource or '-')}/{printable(feed.feedtype or '-')}"


def _codes(label: str, codes: dict[str, CodeCount]) -> list[str]:
    return [
        _line(label, text)
        for code, counted in codes.items()
        for text in (f"{code}: {counted.count:,}, as {counted.first}", *counted.more)
    ]


def _names(label: str, counts: dict[str, int]) -> list[str]:
    """Return one line with the most frequent names, or none without counts."""
    if not counts:
        return []
    names = [f"{printable(name)} {number:,}" for name, number in [*counts.items()][:MAX_NAMES]]
    others = len(counts) - len(names)
    if others:
        more = "more than " if OTHERS in counts else ""
        names.append(f"and {more}{others:,} other{'s' if others > 1 else ''}")
    return [_line(label, ", ".join(names))]


def _content(counts: InputCounts) -> list[str]:
    sizes = counts.content
    if not sizes.documents:
        return []
    text = (
        f"{sizes.documents:,}, {sizes.total:,} bytes as stored: "
        f"{sizes.least:,} to {sizes.most:,}, {sizes.mean:,} on average"
    )
    return [_line("content", text)]


def _acls(counts: InputCounts) -> list[str]:
    acls = counts.acls
    if not acls.documents and not acls.alone:
        return [_line("acl", f"none, {acls.without:,} without")] * bool(acls.without)
    text = (
        f"{acls.documents:,} with, {acls.without:,} without, {acls.alone:,} alone; "
        f"{acls.barred:,} permit nobody"
    )
    return [
        _line("acl", text),
        *_names("principal", {name.lower(): number for name, number in acls.principals.items()}),
        *_names("namespace", acls.namespaces),
    ]


def _groups(groups: Groups) -> list[str]:
    """Return a line of totals, and a line for each group that is named and not defined."""
    if not groups.memberships:
        text = f"{groups.named:,} named; no groups feed among the inputs defines any"
        return [_line("groups", text)] if groups.named else []
    text = (
        f"{groups.defined:,} defined, {groups.unnamed:,} of them named nowhere; "
        f"{groups.named:,} named, {len(groups.undefined):,} of them defined nowhere"
    )
    lines = [
        _line(
            "undefined", f"'{printable(each.name)}' in {printable(each.namespace)}: {each.named:,}"
        )
        for each in groups.undefined[:MAX_GROUPS]
    ]
    others = len(groups.undefined) - len(lines)
    if others:
        lines.append(_line("undefined", f"and {others:,} more, which --format json lists"))
    return [_line("groups", text), *lines]


def _duplicates(counts: InputCounts) -> list[str]:
    duplicates = counts.duplicates
    lines = []
    if duplicates.repeated:
        text = f"{duplicates.repeated:,} of the added urls were added before"
        lines.append(_line("duplicate", text))
    if duplicates.unremembered:
        text = f"{duplicates.unremembered:,} urls were not compared with later ones: too many"
        lines.append(_line("duplicate", text))
    return lines


def _line(label: str, text: str) -> str:
    return f"{label:<{_LABEL_CHARS}}{text}"
