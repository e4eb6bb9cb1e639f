"""GSA feeds whose records differ in all that real feeds differ in, and damaged ones."""

from base64 import b64encode
from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from zlib import compress

_WORDS = (
    *(
        "alpha",
        "Z\u00fcrich",
        "\u6771\u4eac",
        "a &amp; b",
        "&lt;b&gt;",
        "&quot;x&quot;",
        "it's",
        "0",
    ),
    *("two words", "x" * 90, "D&#252;sseldorf", "~hole-0001~", "http://hole-0000.example.com/~"),
    *("\ue000", "\ufdd0", "\U0010fffd", "{}", "{0}", "%s", "%(a)s", "$1", "\\1", "$$", "\\"),
)
"""Texts; the last of them look like the marks of a template."""

_HOSTILE_TEXTS = (
    *("", " ", " a", "a ", "&apos;", "&#65;", "&foo;", "&", "\t", "a\nb", "\r", "\x02", "\x03"),
    *(
        "\x07",
        "\u00a0",
        "a\u2028",
        "\ufffe",
        "]]>",
        ">",
        "a>b",
        "/>",
        "'",
        "&amp;lt;",
        "\U0001f600",
    ),
    *("</principal>", "<", "<record", "</record>", "\x00", "x" * 5000, "\u6771" * 11_000),
)
_HOSTILE_URLS = (
    *("http://intranet/a", "doc-7", "", " http://e.example.com/a", "http://e.example.com/a b"),
    *("http://e.example.com/?a", "http://e.example.com/a?b=1&amp;c=2", "http://e.example.com/#f"),
    *("HTTP://E.EXAMPLE.COM/", "http://e.example.com/&#9;", "?", "http://e.example.com/?a&amp;b"),
    *(f"http://e.example.com/{letter * 300}" for letter in ("a", "b" * 2, "\u00fc")),
)
_URLS = (
    *("http://w.example.com/{}",) * 12,
    *("{}", "smb://w/{}", "googleconnector://c.localhost/doc?docid={}"),
)
_HOSTILE_DATES = ("Mon, 06 Nov 2007 12:45:26 GMT", "2007-11-06", "yesterday", "", "1194353126")
_METADATA_NAMES = (
    *(f"name{number}" for number in range(12)),
    *("a&amp;b", "DT: x", "\u00fc", "~hole-0002~", "author"),
)
_ACL_NAMES = ("google:aclusers", "google:aclinheritfrom", "Google:ACLgroups ")
_RECORD_ATTRIBUTES = {
    "displayurl": ("http://d.example.com/a?b", "a &amp; b", "doc", ""),
    "lock": ("true", "false"),
    "pagerank": ("70", "96", "12"),
    "action": ("add", "add", "delete"),
    "authmethod": ("none", "httpbasic", "ntlm"),
    "crawl-immediately": ("true", "false"),
    "crawl-once": ("true",),
    "feedrank": ("3",),
}
_TYPES = ("text/html", "text/html", "application/pdf", "TEXT/HTML; charset=UTF-8", "", "a/>b")
_TEXT_TYPES = ("text/plain", "text/plain", "application/xml", "text/html", "message/rfc822")
_TEXT_BEGINS = (
    *("\ufeff", '<?xml version="1.0" encoding="windows-1252"?>', "\ufeff<?xml version='1.0'?>"),
    *(" <?xml version='1.0' encoding='latin-1' ?>", "\x00", "<?xmlish", "subject: \ufeff"),
)
_HEADS = (
    *("", "", "\ufeff", '<?xml version="1.0" encoding="UTF-8"?>\n'),
    '<?xml version="1.0"?>\n<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n',
)
_ROOTS = (
    *("<gsafeed>", "<gsafeed>", '<gsafeed xmlns:q="u">', "<gsafeed xmlns='u'>"),
    "<gsafeed\n  xmlns:q='u'\n>",
)
_BETWEEN = (
    *("text", "\ufeff", "&#32;", "]]>", '"', "<!-- a -->", "<!-- </record> -->", "<?a </record>?>"),
    *("<![CDATA[a]]>", "</record>", "</record >", "<record>", "<group/>", "<header/>", "\x00"),
    *("</group>\n<group>", '</group>\n<group action="delete">', "</group>\n<group pagerank='90'>"),
    '<acl url="http://e.example.com/x"><principal scope="user" access="deny">a</principal></acl>'
    '<acl url="http://e.example.com/alone" inherit-from="http://e.example.com/"/>',
    *(
        "<q:a/>",
        "<q:record url='http://e.example.com/q'/>",
        "</gsafeed>\n<gsafeed>",
        "<content>a</content>",
        "<metadata>",
        "</acl>",
    ),
)
_DAMAGE = (
    *("<", ">", '"', "'", "&", "/", "\n", " ", "\x02", "\x03", "=", "</record>", "<record ", "/>"),
    *(
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "</principal>",
        "</acl>",
        "<acl>",
        "<meta ",
        "</metadata>",
    ),
    *("<content>", "</content>", "<?", "?>", "<group>", "</group>", "q:", "\xff"),
)


def feed(records: str, *, feedtype: str = "metadata-and-url", mark: str = "") -> bytes:
    """Return a feed with the given records."""
    header = f"<header><datasource>d</datasource><feedtype>{feedtype}</feedtype></header>"
    text = f"{mark}<gsafeed>\n{header}\n<group>\n{records}</group>\n</gsafeed>\n"
    return text.encode("utf-8", "surrogatepass")


def varied_feed(random: Random) -> bytes:
    """Return a feed of up to 60 records, seldom 300; one of two is also damaged."""
    usual = ("metadata-and-url", "incremental", "full") * 5
    feedtype = random.choice((*usual, "web"))
    writer = _RecordWriter(random, hostility=random.choice((0.0, 0.0, 0.001, 0.01, 0.05)))
    if random.randrange(8):
        writer.fit(feedtype)
    most = random.choice((*(16,) * 8, *(60,) * 8, 200))
    records = [writer.record(number) for number in range(random.randrange(2, most))]
    root = random.choice(_ROOTS)
    header = f"<header><datasource>d</datasource><feedtype>{feedtype}</feedtype></header>"
    head = f"{random.choice(_HEADS)}{root}\n{header}\n<group>\n"
    text = f"{head}{''.join(records)}</group>\n</gsafeed>\n"
    if not random.randrange(40):
        text = text.replace("<record", "<q:record").replace("</record", "</q:record")
    data = text.encode("utf-8", "surrogatepass")
    if not random.randrange(30):
        encoding = random.choice(("UTF-16", "ISO-8859-1", "windows-1252"))
        head = f'<?xml version="1.0" encoding="{encoding}"?>'
        text = head + text[text.index("<gsafeed") :]
        data = text.encode(encoding, "xmlcharrefreplace")
    for _ in range(random.choice((0, 0, 1, 3))):
        data = _damaged(random, data)
    return data


def _damaged(random: Random, data: bytes) -> bytes:
    at, length = random.randrange(len(data)), random.choice((0, 1, 1, 5, 40))
    change = random.choice(_DAMAGE).encode("latin-1")
    begin = max(data.rfind(b"<", 0, at), 0)
    return random.choice(
        (
            data[:at] + change + data[at:],
            data[:at] + data[at + length :],
            data[:at] + change + data[at + 1 :],
            data[:begin] + data[data.find(b">", begin) + 1 :],
            data[:begin] + data[begin : begin + length + 20] + data[begin:],
        )
    )


class _RecordWriter:
    """Writes the records of one feed: each feed has habits, which some of its records break."""

    def __init__(self, random: Random, *, hostility: float) -> None:
        self._random, self._hostility = random, hostility
        self._gap = random.choice(("\n", "\n", "", " \n ", "\r\n", "\n\n"))
        self._inner = random.choice(("", "", "\n", " "))
        self._quote = random.choice((*('"',) * 8, "'"))
        self._equals = random.choice((*("=",) * 8, " = "))
        self._permuted_share = random.choice((*(0.0,) * 6, 0.05, 1.0))
        self._order = random.choice(("acl metadata content", "metadata acl content", "content acl"))
        names = _METADATA_NAMES if random.random() < 0.9 else _METADATA_NAMES[:5] + _ACL_NAMES
        self._names = random.sample(names, random.randrange(1, 8))
        self._names += self._names[: random.choice((0, 0, 0, 0, 1))]
        self._types = random.choice((_TYPES[:3], _TEXT_TYPES, _TEXT_TYPES[:1]))
        self._forms = random.sample(("text", "cdata", "base64"), random.randrange(1, 4))
        self._forms += ["zlib"] * (random.random() < 0.2)
        self._share = {
            part: random.choice((0.0, 0.3, 0.9, 1.0, 1.0))
            for part in ("acl", "metadata", "content", "date", "parent", "deletion", "one acl")
        }
        self._share["attribute"] = random.choice((0.1, 0.5, 1.0))
        self._share["acl record"] = random.choice((*(0.0,) * 6, 0.1, 0.5))
        self._marks = random.choice((0.0, 0.01, 0.1))
        count = random.choice((0, 0, 0, 1, 1, 2, 4))
        self._attributes = random.sample([*_RECORD_ATTRIBUTES], count)
        self._urls = random.choice(_URLS)

    def fit(self, feedtype: str) -> None:
        """Write a content in all records of a full feed, and in none of a feed to be crawled."""
        if feedtype != "incremental":
            self._share["content"] = float(feedtype == "full")

    def _is(self, part: str) -> bool:
        return self._random.random() < self._share[part]

    def _is_hostile(self) -> bool:
        return self._random.random() < self._hostility

    def _text(self) -> str:
        if self._is_hostile():
            return self._random.choice(_HOSTILE_TEXTS)
        return self._random.choice(_WORDS if self._random.random() < self._marks else _WORDS[:9])

    def _url(self, path: str) -> str:
        if self._is_hostile():
            return self._random.choice(_HOSTILE_URLS)
        return self._urls.format(path)

    def _attribute(self, name: str, value: str) -> str:
        quotes = "\"'" if self._quote == '"' else "'\""
        quote = quotes[self._is_hostile()]
        if quote in value:
            quote = "'" if quote == '"' else '"'
        equals = self._random.choice((" = ", "= ", "\n=")) if self._is_hostile() else self._equals
        return f"{name}{equals}{quote}{value}{quote}"

    def _tag(self, name: str, values: dict[str, str], end: str = ">") -> str:
        pairs = [*values.items()]
        if self._random.random() < self._permuted_share:
            self._random.shuffle(pairs)
        if self._is_hostile():
            pairs.append(
                (self._random.choice(("foo", "lock", "pagerank", "xml:space", "q:a")), "true")
            )
        if self._is_hostile():
            end = " " + end
        return f"<{' '.join([name, *(self._attribute(*pair) for pair in pairs)])}{end}"

    def record(self, number: int) -> str:
        """Return a record, and sometimes something odd after it."""
        random = self._random
        values = {"url": self._url(f"{number}?x=1&amp;y={number % 7}")}
        after = random.choice(_BETWEEN) if self._is_hostile() else self._gap
        if random.random() < self._share["deletion"] / 4:
            values |= {"action": "delete", "mimetype": "text/html"}
            return self._tag("record", values, "/>") + after
        if self._is("acl record"):
            return self._acl({"url": values["url"]}) + after
        if random.random() < 0.95:
            values["mimetype"] = (
                random.choice(_TYPES) if self._is_hostile() else random.choice(self._types)
            )
        if self._is("date"):
            is_hostile = self._is_hostile()
            date = f"Tue, 06 Nov 2007 12:45:{random.randrange(60):02} GMT"
            values["last-modified"] = random.choice(_HOSTILE_DATES) if is_hostile else date
        for name in self._attributes:
            if self._is("attribute"):
                values[name] = random.choice(_RECORD_ATTRIBUTES[name])
        parts = self._order.split()
        if self._is_hostile():
            random.shuffle(parts)
        children = [getattr(self, f"_{part}")() for part in parts if self._is(part)]
        if self._is_hostile():
            children.insert(0, random.choice((*children, *_BETWEEN, "<q:x/>", "<metadata/>")))
        inner = self._inner.join(["", *children, ""])
        end = "</record >" if self._is_hostile() else "</record>"
        return f"{self._tag('record', values)}{inner}{end}{after}"

    def _acl(self, stated: Mapping[str, str] = MappingProxyType({})) -> str:
        random, values = self._random, {**stated}
        if not stated and self._is("one acl") and self._share["one acl"] < 1:
            return '<acl><principal scope="group" access="permit">staff</principal></acl>'
        if self._is("parent"):
            kinds = (
                "child-overrides",
                "parent-overrides",
                "leaf-node" if self._is_hostile() else "and-both-permit",
            )
            if random.random() < 0.8:
                values["inheritance-type"] = random.choice(kinds)
            values["inherit-from"] = self._url(f"folder/{random.randrange(30)}/")
        count = random.choice((1, 2, 3, 0 if self._is_hostile() or values else 1))
        principals = [self._principal() for _ in range(count)]
        if self._is_hostile():
            principals.append("<!-- -->")
        return f"{self._tag('acl', values)}{self._inner.join(principals)}</acl>"

    def _principal(self) -> str:
        random = self._random
        values = {"scope": random.choice(("user", "group")), "access": "permit"}
        if random.random() < 0.2:
            values["access"] = "deny"
        if random.random() < 0.5:
            values |= {
                "namespace": "Default",
                "case-sensitivity-type": "everything-case-insensitive",
            }
        if self._is_hostile():
            values["scope"] = random.choice(("robot", "", "USER"))
        name = self._text() if random.random() < 0.3 else f"ACME\\u{random.randrange(50)}"
        return f"{self._tag('principal', values)}{name}</principal>"

    def _metadata(self) -> str:
        count = self._random.randrange(1, len(self._names) + 1)
        metas = [self._meta(name) for name in self._random.sample(self._names, count)]
        if self._is_hostile():
            metas = []
        values = {"overwrite-acls": "true"} if self._is_hostile() else {}
        return self._inner.join([self._tag("metadata", values), *metas, "</metadata>"])

    def _meta(self, name: str) -> str:
        if self._is_hostile():
            packed = (b64encode(text.encode()).decode() for text in (name, "v"))
            return '<meta encoding="base64binary" name="{}" content="{}"/>'.format(*packed)
        values = {"name": self._text() if self._is_hostile() else name, "content": self._text()}
        return self._tag("meta", values, "></meta>" if self._is_hostile() else "/>")

    def _content(self) -> str:
        random, form, text = self._random, self._random.choice(self._forms), self._text()
        if self._is_hostile():
            return random.choice(
                (
                    "<content/>",
                    "<content>a<b/>c</content>",
                    "<content><![CDATA[a]]>b<![CDATA[c]]></content>",
                    "<content><![CDATA[a]]]]><![CDATA[>b]]></content>",
                    "<content> <![CDATA[a]]>\n</content>",
                    "<content><![CDATA[<record></record>]]></content>",
                    '<content encoding="base64binary">Q Q=\n=</content>',
                    '<content encoding="rot13">a</content>',
                    "<content>a</content><content>b</content>",
                    "<content></content>",
                )
            )
        if self._random.random() < self._marks:
            text = random.choice(_TEXT_BEGINS[: 7 if form in ("base64", "zlib") else 1]) + text
        if form == "text":
            return f"{self._tag('content', {})}{text}</content>"
        if form == "cdata":
            return f"<content><![CDATA[<p>{text.replace(']]>', '')} & <record>\n</p>]]></content>"
        data = text.encode("utf-8", "surrogatepass") * random.randrange(1, 9)
        encoding, packed = "base64binary", data
        if form == "zlib":
            encoding, packed = "base64compressed", compress(data)
        return f'<content encoding="{encoding}">{b64encode(packed).decode()}</content>'
