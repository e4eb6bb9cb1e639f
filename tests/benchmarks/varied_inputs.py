"""Inputs that differ from record to record as real ones do, with the same bytes for the same size.

Few folders, names and metadata are frequent and many are rare, and sizes have a long tail. Each
input has the name of what varies in it.
"""

import base64
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from benchmarks.feeds import HEAD, TAIL
from benchmarks.sources import postgresql

SEED = 20_260
ROW_BYTES = 1_100
FILE_BYTES = 6_000
_FOLDERS, _PEOPLE, _GROUPS = 2_000, 9_000, 700
_START = datetime(2025, 3, 1, 6, tzinfo=UTC)
_WORDS = (
    *("contract", "draft", "minutes", "supplier", "r\u00e9sum\u00e9", "Lager", "Gr\u00f6\u00dfe"),
    *(
        "Q&amp;A",
        "valve",
        "torque",
        "of",
        "the",
        "and",
        "for",
        "in",
        "2019",
        "rev.",
        "\u6771\u4eac",
    ),
)
_NAMES = (
    *("Author", "Title", "Modified By", "Content Type", "Department", "Keywords"),
    *("Status", "Version", "Check-In Comment", "Retention", "Project", "Site", "Owner"),
    *(f"Custom {letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
)
_MIMETYPES = (
    *("text/html",) * 5,
    *("application/pdf", "text/plain", "application/msword", "application/vnd.ms-excel"),
)
_NAMESPACES = ("", "", ' namespace="Default"', ' namespace="cn"')
_INHERITANCE = ("child-overrides",) * 6 + ("parent-overrides", "and-both-permit")


class Variety:
    """Makes the parts of records, by a seed."""

    def __init__(self, seed: int = SEED) -> None:
        self.random = random.Random(seed)

    def rank(self, most: int) -> int:
        """A number below `most`; small ones are frequent."""
        return int(self.random.paretovariate(0.7)) % most

    def words(self, most: int) -> str:
        count = 1 + min(self.rank(most), most - 1)
        return " ".join(self.random.choices(_WORDS, k=count))

    def text(self, mean_words: float) -> str:
        count = 1 + int(self.random.lognormvariate(0, 0.8) * mean_words)
        return " ".join(self.random.choices(_WORDS, k=count))

    def value(self, number: int) -> str:
        """The value of a metadata."""
        kind = self.random.randrange(6)
        if kind == 0:
            return f"{number * 7919 % 100_003}"
        if kind == 1:
            return f"{(_START + timedelta(minutes=number)).date()}"
        return self.words(14)

    def principal(self) -> str:
        random = self.random
        if random.random() < 0.45:
            name, scope = f"EXAMPLE\\g-{self.rank(_GROUPS)} staff", "group"
        else:
            name, scope = f"EXAMPLE\\m.m\u00fcller{random.randrange(_PEOPLE)}", "user"
        access = "deny" if random.random() < 0.08 else "permit"
        namespace = random.choice(_NAMESPACES)
        return f'<principal scope="{scope}" access="{access}"{namespace}>{name}</principal>\n'

    def acl(self, count: int, *, is_child: bool) -> str:
        parent = ""
        if is_child:
            folder, kind = self.rank(_FOLDERS), self.random.choice(_INHERITANCE)
            url = f"https://docs.example.com/sites/{folder % 37}/lib {folder}/".replace(" ", "%20")
            parent = f' inheritance-type="{kind}" inherit-from="{url}"'
        return f"<acl{parent}>\n{''.join(self.principal() for _ in range(count))}</acl>\n"

    def metadata(self, number: int, names: list[str]) -> str:
        pairs = (f'<meta name="{name}" content="{self.value(number)}"/>\n' for name in names)
        return f"<metadata>\n{''.join(pairs)}</metadata>\n"

    def names(self) -> list[str]:
        """Names of metadata, each at most once."""
        count = 1 + min(int(self.random.expovariate(0.35)), 11)
        ranks = (self.rank(len(_NAMES)) for _ in range(count))
        return [_NAMES[rank] for rank in dict.fromkeys(ranks)]

    def record(self, number: int, inner: str) -> str:
        random = self.random
        query = f"?id={number}&amp;v={number % 11}" if random.random() < 0.3 else ""
        url = f"https://docs.example.com/sites/{self.rank(_FOLDERS)}/d{number:07}.aspx{query}"
        moment = _START + timedelta(seconds=613 * number)
        optional = f' displayurl="{url}"' if random.random() < 0.1 else ""
        if random.random() < 0.9:
            optional += f' last-modified="{moment:%a, %d %b %Y %H:%M:%S} GMT"'
        mimetype = random.choice(_MIMETYPES)
        return f'<record url="{url}" mimetype="{mimetype}"{optional}>\n{inner}</record>\n'


_FIVE = list(_NAMES[:5])
_SAME_ACL = (
    '<acl>\n<principal scope="group" access="permit">EXAMPLE\\all staff</principal>\n</acl>\n'
)


def _uniform(made: Variety, number: int) -> str:
    return (
        f'<record url="https://docs.example.com/d{number:07}.aspx" mimetype="text/html">\n'
        f"{made.metadata(number, _FIVE)}</record>\n"
    )


def _three_principals(made: Variety, number: int) -> str:
    return made.record(number, made.acl(3, is_child=True) + made.metadata(number, _FIVE))


def _acls(made: Variety, number: int) -> str:
    count = min(1 + int(made.random.expovariate(0.4)), 9)
    acl = made.acl(count, is_child=made.random.random() < 0.7)
    return made.record(number, acl + made.metadata(number, _FIVE))


def _metadata(made: Variety, number: int) -> str:
    return made.record(number, made.metadata(number, made.names()))


def _texts(made: Variety, number: int) -> str:
    acl = made.acl(2, is_child=True) + made.metadata(number, made.names())
    if number % 3:
        content = (
            f"<content><![CDATA[<html><body><p>{made.text(70)}</p></body></html>]]></content>\n"
        )
    else:
        content = f"<content>&lt;p>{made.text(70)}&lt;/p></content>\n"
    return made.record(number, acl + content)


def _base64(made: Variety, number: int) -> str:
    acl = made.acl(2, is_child=True) + made.metadata(number, made.names())
    data = made.random.randbytes(400 + int(made.random.lognormvariate(0, 0.9) * 2_000))
    content = base64.b64encode(data).decode()
    return made.record(number, f'{acl}<content encoding="base64binary">{content}</content>\n')


def _deletions(made: Variety, number: int) -> str:
    if made.random.random() < 0.15:
        return (
            f'<record url="https://docs.example.com/old/{number}" action="delete"'
            ' mimetype="text/html"/>\n'
        )
    return made.record(number, made.metadata(number, _FIVE))


def _one_acl(made: Variety, number: int) -> str:
    return made.record(number, _SAME_ACL + made.metadata(number, _FIVE))


def _new_elements(made: Variety, number: int) -> str:
    names = [f"{name} {number}" for name in made.names()]
    return made.record(number, made.acl(2, is_child=True) + made.metadata(number, names))


def _mixed(made: Variety, number: int) -> str:
    return made.random.choice((_acls, _texts, _texts, _base64, _deletions))(made, number)


FEEDS: dict[str, tuple[str, Callable[[Variety, int], str]]] = {
    "ACLs of three": ("metadata-and-url", _three_principals),
    "ACLs of any length": ("metadata-and-url", _acls),
    "metadata": ("metadata-and-url", _metadata),
    "texts": ("incremental", _texts),
    "base64": ("incremental", _base64),
    "deletions": ("metadata-and-url", _deletions),
    "one ACL": ("metadata-and-url", _one_acl),
    "mixed": ("incremental", _mixed),
    "every element new": ("metadata-and-url", _new_elements),
    "uniform": ("metadata-and-url", _uniform),
}
"""The feedtype and the records of each feed; the last one is uniform, for comparison."""


def feed(path: Path, records: int, *, name: str) -> int:
    """Write a feed; return the number of its records."""
    feedtype, make = FEEDS[name]
    made = Variety()
    with path.open("w", encoding="utf-8") as stream:
        stream.write(HEAD.format(feedtype=feedtype))
        stream.writelines(make(made, number) for number in range(records))
        stream.write(TAIL.decode())
    return records


def groups(path: Path, records: int, *, is_varied: bool) -> int:
    """Write a groups feed, whose groups have 10 members or any number."""
    made = Variety()
    with path.open("w", encoding="utf-8") as stream:
        stream.write('<?xml version="1.0" encoding="UTF-8"?>\n<xmlgroups>\n')
        for number in range(records):
            count = min(1 + int(made.random.lognormvariate(1.5, 1)), 300) if is_varied else 10
            members = "".join(_member(made, is_varied=is_varied) for _ in range(count))
            group = f'<principal namespace="Default" scope="GROUP">EXAMPLE\\g-{number}</principal>'
            stream.write(f"<membership>\n{group}\n<members>\n{members}</members>\n</membership>\n")
        stream.write("</xmlgroups>\n")
    return records


def _member(made: Variety, *, is_varied: bool) -> str:
    name = f"EXAMPLE\\m.m\u00fcller{made.random.randrange(_PEOPLE)}"
    if not is_varied:
        return f'<principal namespace="Default" scope="USER">{name}</principal>\n'
    scope = made.random.choice(("USER", "USER", "GROUP"))
    case = made.random.choice(("", ' case-sensitivity-type="EVERYTHING_CASE_INSENSITIVE"'))
    return f'<principal{made.random.choice(_NAMESPACES)} scope="{scope}"{case}>{name}</principal>\n'


def items(path: Path, records: int, *, is_varied: bool) -> int:
    """Write Thunderstone items, with the same elements in all of them or with any."""
    made = Variety()
    with path.open("w", encoding="utf-8") as stream:
        stream.write("<ThunderstoneReplication>\n")
        stream.writelines(_item(made, number, is_varied) for number in range(records))
        stream.write("</ThunderstoneReplication>\n")
    return records


def _item(made: Variety, number: int, is_varied: bool) -> str:
    random = made.random
    type_ = random.choice("IIIIUD") if is_varied else "U"
    names = made.names() if is_varied else _FIVE
    pairs = "\n".join(f"{name}: {made.value(number)}" for name in names)
    elements = [
        f"<Url>https://docs.example.com/{made.rank(_FOLDERS)}/{number}</Url>",
        f"<Meta>{pairs}</Meta>",
        f"<Modified>2025-03-0{1 + number % 9} 12:45:{number % 60:02}</Modified>",
        f"<MimeType>{random.choice(_MIMETYPES) if is_varied else 'text/html'}</MimeType>",
    ]
    if is_varied:
        optional = (
            f"<Title>{made.words(12)}</Title>",
            f"<Keywords>{made.words(5)}</Keywords>",
            f"<Size>{random.randrange(1 << 20)}</Size>",
            f"<Category>{made.words(3)}</Category>",
        )
        elements += random.sample(optional, random.randrange(5))
    if type_ == "I":
        elements.append(f"<Body>{made.text(40)}</Body>")
    return f"<Item><Type>{type_}</Type>{''.join(elements)}</Item>\n"


def listing(path: Path, records: int) -> int:
    """Write a lister stream of ids, each with any commands, some of them in lists."""
    made, number = Variety(), 0
    with path.open("w", encoding="utf-8") as stream:
        stream.write("GSA Adaptor Data Version 1 [\n]\n")
        while number < records:
            ids = [
                f"/sites/{made.rank(_FOLDERS)}/Z\u00fcrich {number + at}.pdf" for at in range(50)
            ]
            ids = ids[: records - number]
            number += len(ids)
            if made.random.random() < 0.2:
                stream.write("\n".join(("id-list", *ids, "", "")))
            else:
                stream.writelines(f"id={docid}\n{_commands(made)}" for docid in ids)
    return records


def _commands(made: Variety) -> str:
    random = made.random
    commands = f"last-modified={1_300_000_000 + random.randrange(10**8)}\n"
    commands = commands if random.random() < 0.7 else ""
    return commands + random.choice(("", "", "lock\n", "crawl-once\n", "delete\n"))


_COLUMNS = (
    "id bigint PRIMARY KEY, title text, body text, dept text NOT NULL, updated_at {moment},"
    " type text, tags text, readers text, folder text"
)
_ROW_MAPPING = """\
connection: {connection}
table: {table}
url: https://reports.example.com/{{dept}}/{{id}}
content: {{column: body}}
mimetype: {{column: type}}
title: title
metadata: [dept, {{column: tags, separator: ";"}}, type]
modified: updated_at
acl: {{users: readers, inherit_from: {{column: folder}}}}
"""


def file_table(path: Path, rows: int) -> int:
    """Make a table of rows that vary in a file of SQLite, and a mapping file for it at `path`."""
    file = path.with_suffix(".db")
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"CREATE TABLE rows ({_COLUMNS.format(moment='text')})")
        marks = ", ".join("?" * 9)
        connection.executemany(f"INSERT INTO rows VALUES ({marks})", _rows(rows))
    path.write_text(_ROW_MAPPING.format(connection=f"sqlite:///{file}", table="rows"), "utf-8")
    return rows


def table(path: Path, rows: int) -> int:
    """Make the same table in a server of PostgreSQL, which runs until this process ends."""
    name = path.stem.lower().replace("-", "_")
    columns = _COLUMNS.format(moment="timestamptz")
    connection = postgresql(name, columns, _rows(rows))
    path.write_text(_ROW_MAPPING.format(connection=connection, table=name), "utf-8")
    return rows


def _rows(count: int) -> Iterator[tuple[object, ...]]:
    made = Variety()
    random = made.random
    for number in range(count):
        readers = ", ".join(
            f"m.m\u00fcller{made.rank(_PEOPLE)}" for _ in range(random.randrange(5))
        )
        moment = _START + timedelta(seconds=17 * number)
        yield (
            number,
            made.words(9).replace("&amp;", "&") if random.random() < 0.9 else None,
            made.text(120).replace("&amp;", "&"),
            f"dept{made.rank(90)}",
            f"{moment:%Y-%m-%d %H:%M:%S}+00:00" if random.random() < 0.9 else None,
            random.choice(("text/plain", "text/plain", "text/html", "text/csv")),
            ";".join(random.choices(_WORDS[:5], k=random.randrange(4))) or None,
            readers or None,
            f"https://reports.example.com/folders/{made.rank(_FOLDERS)}/",
        )


def files(path: Path, count: int) -> int:
    """Make a tree of texts, pages and binary files of any size; return their number."""
    made = Variety()
    random = made.random
    for number in range(count):
        folder = path / f"site {made.rank(40)}" / f"lib \u00fc{made.rank(25)}"
        folder.mkdir(parents=True, exist_ok=True)
        kind = random.choices(_FILE_KINDS, weights=(40, 30, 10, 10, 10))[0]
        suffix, make = kind
        (folder / f"{made.words(3)} {number}{suffix}").write_bytes(make(made))
    return count


def _page(made: Variety) -> bytes:
    return f"<!DOCTYPE html>\n<html><body><p>{made.text(500)}</p></body></html>".encode()


def _binary(made: Variety, *, head: bytes) -> bytes:
    return head + made.random.randbytes(int(made.random.lognormvariate(0, 1) * 6_000))


_FILE_KINDS: tuple[tuple[str, Callable[[Variety], bytes]], ...] = (
    (".txt", lambda made: made.text(400).encode()),
    (".html", _page),
    (".pdf", partial(_binary, head=b"%PDF-1.4\n")),
    (".md", lambda made: f"# {made.words(4)}\n\n{made.text(300)}\n".encode()),
    (".txt", lambda made: made.text(200).encode("utf-16")),
)
