"""Items of a few shapes, with neutral and hostile values in every element."""

from hypothesis import strategies as st

HEAD = (
    '<?xml version="1.0"?>\n<ThunderstoneReplication'
    ' xmlns:dt="urn:schemas-microsoft-com:datatypes"'
    ' xmlns:u="http://www.thunderstone.com/ParametricSearch/1.0/">\n'
)
TAIL = "\n</ThunderstoneReplication>\n"

NEUTRAL = {
    "text": ("a", "two words", "Z\u00fcrich", "\u6771\u4eac", "a &amp; b", "&lt;b&gt;", '"x"', "0"),
    "url": (
        "http://www.example.com/a",
        "https://docs.example.org:8443/a%20b?x=1&amp;y=2#f",
        "smb://server/share/\u00fc.pdf",
    ),
    "date": ("2007-11-06 12:45:26", "2020-02-29 00:00:00", "Tue, 06 Nov 2007 12:45:26 GMT"),
    "number": ("0", "7", "150369"),
    "base64": ("QQ==", "QUJD", "QUJD" * 300),
    "content": ("a", "Z\u00fcrich \u6771\u4eac", "a\n\t&lt;b&gt; &amp;amp; 'c' \"d\"", "x" * 700),
}
HOSTILE = {
    "text": (
        *("", " ", " a", "a ", "&apos;", "&#65;", "&#10;", "&foo;", "&", "<", ">", "a>b", "]]>"),
        *("\t", "\n", "a\nb", "\r\n", "\x00", "\x07", "\x01", "\x02", "\x7f", "\x85", "\u00a0"),
        *(
            *("a\u00a0", "\u2028", "\ufffd", "\ufffe", "\uffff", "\u200f", "\u202e", "&amp;lt;"),
            "&amp",
        ),
        *("\U0001f600", "~hole-0001~", "a: b", ": ", "a:b", "<b/>", "<!-- -->", "<?p?>", "</Url>"),
        *("<![CDATA[a]]>", "<![CDATA[</Item>]]>", "</Item>", "<Item>", "1", "\udc80"),
    ),
    "url": (
        *("", " ", "http://intranet/a", "http://10.0.0.1/", "file:///etc", "doc-7", "a:b", "&#9;"),
        *(" http://www.example.com/a ", "\nhttp://www.example.com/\n", "http://www.example.com/*"),
        *("http://hole-0000.example.com/~", "http://www.example.com/<b/>", '"', "http://e.com/'"),
    ),
    "date": (
        *("", " ", "yesterday", "2007-02-30 00:00:00", "2007-11-06", "1194353126", "0001-01-01"),
        *("2007-11-06 12:45:26.5", "0000-01-01 00:00:00", " 2007-11-06 12:45:26", "<b/>"),
    ),
    "number": ("", "-1", " 7", "007", "1e3", "9" * 18, "9" * 19, "9" * 25, "a", "\u0663", "&#55;"),
    "base64": (
        *(
            *("", " ", "QQ", "Q", "QUJD\nQUJD", " QUJD", "QUJD=", "====", "Q\u00fc", "&#81;QUJ"),
            "<b/>",
        ),
        *("<![CDATA[QUJD]]>", "<![CDATA[QUJD", "a<![CDATA[QUJD]]>", "QUJD<!-- -->", "</Item>"),
    ),
    "content": (
        *(
            *("", " ", "&#65;", "&", "]]>", "\r", "\x00", "\ufffe", "<b/>", "</Body>", "</Item>"),
            "a\n",
        ),
        *("<![CDATA[a & b]]>", "<![CDATA[]]>", "a<![CDATA[b]]>", "<![CDATA[</Item><Item>]]>"),
        *("<RawData>QQ==</RawData>", "~hole-0002~", "\udc80"),
    ),
}
"""Values by the kind of their element, of which some need the parser."""

_ELEMENTS = {
    **dict.fromkeys(("Title", "Keywords", "Description", "Category", "u:Price"), "text"),
    **dict.fromkeys(("Modified", "Visited", "NextCheck"), "date"),
    **dict.fromkeys(("Size", "Depth", "Pop"), "number"),
    "Body": "content",
}
_FIXED = (
    *("<MimeType>text/html</MimeType>", "<MimeType>text/plain</MimeType>", "<MimeType/>"),
    *("<Charset>UTF-8</Charset>", "<Charset>latin-1</Charset>", "<CTR>.5</CTR>", "<Title/>"),
    *("<MimeType>~hole-0001~</MimeType>", "<Charset>http://hole-0000.example.com/~</Charset>"),
    *("<rid>7</rid>", "<Dlsecs>2</Dlsecs>", "stray", "<!-- a -->", "<Url>http://b.com/</Url>"),
    *("<Refs/>", '<Title dt:dt="bin.base64">QUJD</Title>', "<x:y>1</x:y>", "<Unknown a='>'/>"),
    '<Refs dt:dt="bin.base64">PHJlc3VsdHM+PHJlc3VsdD48VXJsPmh0dHA6Ly93d3cuZXhhbXBsZS5jb20vYTwvVXJs'
    "PjxSZWY+aHR0cDovL2IuY29tLzwvUmVmPjwvcmVzdWx0PjwvcmVzdWx0cz4=</Refs>",
)
_RAW_DATA = ('<RawData dt:dt="bin.base64">@base64</RawData>', "<RawData>@base64</RawData>")
_LINES = (
    *("Author: @text", "Phone: @text", "@text", "", "Author : @text", ": @text"),
    *("~hole-0002~: @text", "~hole-0001~: a"),
)
_OTHERS = (
    *("<u:Set><value>@text</value><value>@text</value></u:Set>", "<Meta>@text</Meta>"),
    *('<Body dt:dt="bin.base64">@base64</Body>', "<Body><![CDATA[@text]]></Body>"),
    *("<BodyText>@text</BodyText>", '<Unknown a="@text"/>', "<Url>@url</Url>"),
)
_TYPES = ("I",) * 12 + ("U", "D", "DP", "i", "UI")


@st.composite
def _shapes(draw: st.DrawFn) -> str:
    """An Item with the kinds of its values in place of them."""
    names = draw(st.lists(st.sampled_from([*_ELEMENTS]), max_size=5))
    children = [f"<{name}>@{_ELEMENTS[name]}</{name}>" for name in names]
    if draw(st.booleans()):
        lines = draw(st.lists(st.sampled_from(_LINES[:2] * 4 + _LINES), min_size=1, max_size=4))
        children.append(f"<Meta>{'@nl'.join(lines)}</Meta>")
    if draw(st.booleans()):
        children.append(draw(st.sampled_from(_RAW_DATA[:1] * 8 + _RAW_DATA)))
    if not draw(st.integers(0, 3)):
        children.append(draw(st.sampled_from(_FIXED + _OTHERS)))
    gap = draw(st.sampled_from(("", "", "\n", " \r\n")))
    type_, url = f"<Type>{draw(st.sampled_from(_TYPES))}</Type>", "<Url>@url</Url>"
    return gap.join(("<Item>", type_, url, *draw(st.permutations(children)), "</Item>"))


@st.composite
def dataloads(draw: st.DrawFn) -> bytes:
    """A document of Items with few shapes; most values are neutral."""
    shapes = draw(st.lists(_shapes(), min_size=1, max_size=3))
    gap = draw(st.sampled_from(("\n", "\n", "", " \n ", "stray", "\ufeff", "&#32;", "<!-- -->")))
    hostile_share = draw(st.sampled_from((0, 0, 40, 8)))
    items = []
    for _ in range(draw(st.integers(2, 30))):
        item = draw(st.sampled_from(shapes)).replace("@nl", "\n")
        for kind, neutral in NEUTRAL.items():
            pieces = item.split(f"@{kind}")
            for at in range(1, len(pieces)):
                is_hostile = hostile_share and not draw(st.integers(0, hostile_share))
                values = HOSTILE[kind] if is_hostile else neutral
                pieces[at] = draw(st.sampled_from(values)) + pieces[at]
            item = "".join(pieces)
        items.append(item)
    return document(gap.join(items))


def document(items: str) -> bytes:
    return f"{HEAD}{items}{TAIL}".encode("utf-8", "surrogateescape")
