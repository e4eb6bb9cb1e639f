"""Feeds whose records vary are converted without a loss of speed, and to the same bytes."""

import io
import itertools
import logging
import re
from collections.abc import Hashable, Sequence

import pytest
from msgspec.structs import replace

from feedferry.schemas.record import Record
from feedferry.transforms.formats import FeedOptions, ReadOptions, by_name
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.fast_path.elements import element_shapes
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock, ElementShape
from feedferry.transforms.formats.fast_path.elements.element_codes import ElementPlaces
from feedferry.transforms.formats.fast_path.learning import comparisons
from feedferry.transforms.formats.fast_path.plans.batch_plan import Counted
from feedferry.transforms.formats.fast_path.plans.element_plan import Pieces
from feedferry.transforms.formats.fast_path.plans.encoded_block import EncodedBlock, Layout
from feedferry.transforms.formats.gsa.fast_reader import RecordTemplate
from feedferry.transforms.formats.gsa.feed_blocks import FeedBlocks
from feedferry.transforms.formats.xml import elements
from feedferry.transforms.formats.xml.bulk import element_runs
from feedferry.transforms.formats.xml.bulk.run_shapes import ShapeKey
from feedferry.transforms.formats.xml.elements import ParsedElement
from feedferry.transforms.formats.xml.scanning.raw_elements import RawElement
from feedferry.transforms.rules.adapt import Target
from support.batches import SIZES, by_parser, conversion
from support.varied_feeds import feed

GSA_FEED = Target(format="gsa-feed")
METADATA = '<metadata><meta name="a" content="{}"/></metadata>'


def record(number: int, inner: str = "", attributes: str = "") -> str:
    url = f"http://www.example.com/{number}"
    return f'<record url="{url}" mimetype="text/html"{attributes}>{inner}</record>\n'


def test_a_shape_that_is_met_once_is_learned_within_a_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned = set[ShapeKey]()
    sample = RecordTemplate.sample

    def note(template: RecordTemplate, key: ShapeKey, texts: Sequence[str]) -> str:
        learned.add(key)
        return sample(template, key, texts)

    monkeypatch.setattr(RecordTemplate, "sample", note)
    records = [record(n, METADATA.format(n).replace('"a"', f'"a{n}"')) for n in range(2000)]
    conversion(feed("".join(records)), Target(format="avro"), batch_records=1024)
    assert 0 < len(learned) <= element_runs._FREE_SHAPES + element_shapes._FREE_SHAPES


@pytest.mark.parametrize("size", [0, *SIZES])
@pytest.mark.parametrize("attribute", ["", " x='a=\"b\"'", ' x="a/b"', "/"])
def test_elements_that_close_themselves_are_in_the_batch_of_their_neighbours(
    attribute: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    deletion = '<record url="http://www.example.com/{}" action="delete" mimetype="text/html"{}/>\n'
    records = [
        record(n, METADATA.format(n)) if n % 5 else deletion.format(n, attribute)
        for n in range(100)
    ]
    data = feed("".join(records))
    caplog.set_level(logging.DEBUG, "feedferry.transforms.conversion.convert")
    assert conversion(data, GSA_FEED, batch_records=size) == conversion(
        data, GSA_FEED, batch_records=0
    )
    if size == 7 and attribute != "/":
        assert ": 93 of 100 records by a plan, in 14 batches" in caplog.text


@pytest.mark.parametrize("size", [0, *SIZES])
@pytest.mark.parametrize(
    "name", ["staff", "", 'a"b', "a &amp; b", "&foo;", " staff ", "~hole-0001~"]
)
def test_an_acl_that_all_records_share_is_a_constant(
    name: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    acl = f'<acl><principal scope="group" access="permit">{name}</principal></acl>'
    data = feed("".join(record(n, acl + METADATA.format(n)) for n in range(50)))
    caplog.set_level(logging.DEBUG, "feedferry.transforms.conversion.convert")
    assert conversion(data, GSA_FEED, batch_records=size) == conversion(
        data, GSA_FEED, batch_records=0
    )
    if size == 7 and name in ("staff", "a &amp; b"):
        assert ": 43 of 50 records by a plan, in 7 batches" in caplog.text


FOLDER = ' inheritance-type="child-overrides" inherit-from="http://www.example.com/{}/"'
USER = '<principal scope="user" access="permit">u{}</principal>'
GROUP = '<principal scope="group" access="deny" namespace="n">g{}</principal>'


def varied_record(number: int, *, inner: str = "") -> str:
    """A record with one of many folders and sets of metadata, and with principals in turn."""
    principals = [USER.format(number), GROUP.format(number % 3), USER.format(number % 5)]
    acl = f"<acl{FOLDER.format(number)}>{''.join(principals[number % 2 : 1 + number % 4])}</acl>"
    names = [name for name in range(8) if (number * 7 >> name) % 2] or [0]
    metas = "".join(f'<meta name="n{name}" content="a &amp; {number}"/>' for name in names)
    return record(number, f"{acl}<metadata>{metas}</metadata>{inner}")


def planned(
    data: bytes, caplog: pytest.LogCaptureFixture, *, size: int = 1024, target: Target = GSA_FEED
) -> int:
    """How many records of a feed are written by plans; they are as by the parser."""
    with by_parser():
        single = conversion(data, target, batch_records=0)
    caplog.clear()
    caplog.set_level(logging.DEBUG, "feedferry.transforms.conversion.convert")
    assert conversion(data, target, batch_records=size) == single
    [count] = [int(row[1]) for row in re.finditer(r": (\d+) of \d+ records by a plan", caplog.text)]
    return count


@pytest.mark.parametrize("size", SIZES)
def test_records_that_vary_are_written_by_the_plans_of_their_elements(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    data = feed("".join(varied_record(n) for n in range(200)))
    assert planned(data, caplog, size=size) == 199  # the first one begins the feed


def documents(count: int) -> bytes:
    content = "<content>a &lt;b&gt; {}</content>"
    records = [varied_record(n, inner=content.format(n)) for n in range(count)]
    return feed("".join(records), feedtype="incremental")


@pytest.mark.parametrize(
    ("target", "count"),
    [
        *(("gsa-feed", 199), ("avro", 199), ("jsonl", 199)),
        ("thunderstone", 195),  # the first losses of ACLs are samples
    ],
)
def test_each_writer_joins_the_elements_of_records_that_vary(
    target: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    found = planned(documents(200), caplog, size=7, target=Target(format=target))
    assert found == count


@pytest.mark.parametrize("target", ["gsa-feed", "avro"])
@pytest.mark.parametrize(
    "attribute",
    [
        *(' displayurl="http://d.example.com/{}"', ' lock="true"', ' pagerank="96"'),
        *(' authmethod="ntlm"', ' crawl-immediately="true"', ' displayurl="&lt;{}"'),
    ],
)
def test_hints_of_a_record_are_in_its_signature(
    attribute: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = [varied_record(n) for n in range(200)]
    records[1::2] = [
        text.replace(" mimetype", f"{attribute.format(n)} mimetype", 1)
        for n, text in enumerate(records[1::2])
    ]
    assert planned(feed("".join(records)), caplog, target=Target(format=target)) == 199


@pytest.mark.parametrize("target", ["gsa-feed", "avro", "jsonl"])
def test_records_with_and_without_a_field_between_elements_have_layouts_of_their_own(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    hint = ' crawl-immediately="true" mimetype'
    records = [
        re.sub("<metadata>.*</metadata>", "", varied_record(n)).replace(
            " mimetype", " mimetype" if n % 3 else hint, 1
        )
        for n in range(100)
    ]
    assert planned(feed("".join(records)), caplog, size=7, target=Target(format=target)) == 99


def test_a_signature_that_is_met_often_is_learned_beyond_the_budget(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = [varied_record(n).replace('"n', f'"n{n % 20}-') for n in range(4000)]
    assert planned(feed("".join(records)), caplog) > 2000


def test_a_record_that_permits_nobody_is_noted_where_the_target_has_no_acls() -> None:
    denial = '<acl><principal scope="user" access="deny">{}</principal></acl>'
    records = [
        record(n, (f"<acl>{USER}</acl>" if n % 3 else denial).format(n) + f"<content>{n}</content>")
        for n in range(60)
    ]
    data = feed("".join(records), feedtype="incremental")
    found = conversion(data, Target(format="thunderstone"), batch_records=7)
    assert found == conversion(data, Target(format="thunderstone"), batch_records=0)
    assert b'"acl-permits-nobody":{"count":20,' in found.account


def test_records_whose_notices_are_only_counted_are_written_by_plans(
    caplog: pytest.LogCaptureFixture,
) -> None:
    acl = '<acl><principal scope="user" access="{}">{}</principal>{}</acl>'
    more = '<principal scope="group" access="deny">g</principal>'
    acls = [acl.format("permit" if n % 3 else "deny", n, more * (n % 2)) for n in range(60)]
    records = [re.sub("<acl.*</acl>", acl, varied_record(n)) for n, acl in enumerate(acls)]
    data = feed("".join(records))
    assert planned(data, caplog) == 59  # the first one, which begins the feed, is reported
    found = conversion(data, GSA_FEED, batch_records=1024)
    assert b'"acl-permits-nobody":{"count":20,' in found.account


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<metadata>", "<metadata><metadata>"),
        ("</metadata>", "</metadata></metadata>"),
        *(("</acl>", ""), ("</acl>", "</acl></acl>"), ("<metadata>", "")),
        ('<meta name="n', '</metadata><meta name="n'),
    ],
)
def test_a_record_that_is_not_well_formed_is_not_built(before: str, after: str) -> None:
    target = Target(format="gsa-feed", own=(FeedOptions(dialect="5.0"),))
    records = [varied_record(n) for n in range(100)]
    records[50] = records[50].replace(before, after, 1)
    data = feed("".join(records))
    found = conversion(data, target, batch_records=1024)
    assert found == conversion(data, target, batch_records=0)
    assert b'"rejected":{"unreadable":1}' in found.account


def test_metadata_with_an_element_of_their_own_are_written_by_plans(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = ("title", "Keywords", "description", "category", "n5")
    records = [
        varied_record(n, inner=f"<content>{n}</content>").replace(
            '"n1"', f'"{names[n % len(names)]}"'
        )
        for n in range(200)
    ]
    data = feed("".join(records), feedtype="incremental")
    assert planned(data, caplog, size=7, target=Target(format="thunderstone")) == 195


def test_a_rule_for_the_type_of_a_content_has_a_layout_of_its_own() -> None:
    kinds = ("text/plain", "text/html", "application/pdf")
    contents = ("<content>{}</content>", '<content encoding="base64binary">QQ==</content>')
    records = [
        varied_record(n, inner=contents[n // 3 % 2].format(n)).replace("text/html", kinds[n % 3])
        for n in range(200)
    ]
    data = feed("".join(records), feedtype="incremental")
    for size in SIZES:
        found = conversion(data, Target(format="thunderstone"), batch_records=size)
        assert found == conversion(data, Target(format="thunderstone"), batch_records=0)


def test_plain_text_is_written_by_a_plan_where_it_becomes_a_body(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kinds = ("text/plain", "text/html", "text/plain; charset=ISO-8859-1", "application/pdf")
    contents = ("<content>a &lt;b&gt; {}</content>", "<content><![CDATA[<p>{}]]></content>")
    records = [
        varied_record(n, inner=contents[n // 4 % 2].format(n)).replace("text/html", kinds[n % 4])
        for n in range(200)
    ]
    data = feed("".join(records), feedtype="incremental")
    assert planned(data, caplog, target=Target(format="thunderstone")) == 195


def test_a_record_with_a_value_that_a_target_cannot_hold_is_written_by_a_plan(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown = ' displayurl="http://d.example.com/{}" mimetype'
    records = [
        varied_record(n, inner="<content>a</content>").replace(
            " mimetype", shown.format(n) if n % 2 else " mimetype", 1
        )
        for n in range(200)
    ]
    data = feed("".join(records), feedtype="incremental")
    assert (
        planned(data, caplog, target=Target(format="thunderstone")) == 192
    )  # losses of both fields are sampled


def test_records_with_the_same_elements_in_any_order_have_one_layout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    learned: list[int] = []
    learn = EncodedBlock.learn_layout

    def note(block: EncodedBlock, number: int, pieces: Pieces, counted: Counted) -> Layout | None:
        learned.append(number)
        return learn(block, number, pieces, counted)

    monkeypatch.setattr(EncodedBlock, "learn_layout", note)
    orders = [*itertools.permutations(("Title", "Keywords", "a", "b", "c"))]
    records = [
        record(n, "".join(f'<meta name="{name}" content="{n}"/>' for name in order))
        for n, order in enumerate(orders)
    ]
    records = [text.replace("><meta", "><metadata><meta", 1) for text in records]
    records = [
        text.replace("</record>", "</metadata><content>a</content></record>") for text in records
    ]
    data = feed("".join(records), feedtype="incremental")
    assert planned(data, caplog, target=Target(format="thunderstone")) == 119
    assert len(learned) == 1


def test_a_content_between_records_is_none_of_the_record_before_it() -> None:
    records = [varied_record(n, inner="<content>a</content>" * (n % 2)) for n in range(40)]
    records.insert(21, "<content>stray</content>")
    data = feed("".join(records), feedtype="incremental")
    found = conversion(data, GSA_FEED, batch_records=1024)
    assert found == conversion(data, GSA_FEED, batch_records=0)
    assert b'"read":{"ADD":20,"UPDATE":20,"unreadable":1}' in found.account


def test_rejects_before_the_first_record_of_a_feed_with_a_wrong_header_are_reported() -> None:
    damaged = [record(n, "<acl>") for n in range(2)]
    data = feed("".join([*damaged, *map(varied_record, range(9))]), feedtype="wrong")
    reading = ReadOptions(used_header=frozenset({"feedtype"}))
    found = conversion(data, Target(format="avro"), batch_records=1024, reading=reading)
    assert found == conversion(data, Target(format="avro"), batch_records=0, reading=reading)
    assert b'"reject_codes":{"malformed":2,"unknown-format":1}' in found.account


@pytest.mark.parametrize("inner", ["<acl>", '<acl><principal scope="robot"/></acl>'])
def test_a_full_feed_whose_records_are_all_refused_has_no_records(inner: str) -> None:
    data = feed("".join(record(n, inner) for n in range(3)), feedtype="full")
    found = conversion(data, GSA_FEED, batch_records=1024)
    assert found == conversion(data, GSA_FEED, batch_records=0)
    assert b'"has_records":false' in found.account


def test_records_of_blocks_that_no_writer_joins_are_built_without_the_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(format="gsa-feed", own=(FeedOptions(dialect="5.0"),))
    with by_parser():
        single = conversion(documents(200), target, batch_records=0)
    parsed: list[RawElement] = []
    parse = elements.parse_element

    def note(raw: RawElement, names: ElementNames, *, max_tags: int) -> ParsedElement:
        parsed.append(raw)
        return parse(raw, names, max_tags=max_tags)

    monkeypatch.setattr(elements, "parse_element", note)
    assert conversion(documents(200), target, batch_records=1024) == single
    assert 0 < len(parsed) < 20


def test_records_that_are_built_otherwise_than_parsed_are_parsed_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparisons, "COMPARED_RECORDS", 50)
    build, built = ElementBlock._built, itertools.count()

    def damage(block: ElementBlock, number: int, places: ElementPlaces) -> Record:
        found = build(block, number, places)
        return found if next(built) < 20 else replace(found, mimetype="text/plain")

    monkeypatch.setattr(ElementBlock, "_built", damage)
    records = [varied_record(n) for n in range(2000)]
    target = Target(format="gsa-feed", own=(FeedOptions(dialect="5.0"),))
    found = conversion(feed("".join(records)), target, batch_records=1024)
    [chunk] = found.files.values()
    assert b'"plan-refuted":{"count":1,' in found.account
    assert 0 < chunk.count(b"text/plain") <= 50


@pytest.mark.parametrize(
    "content",
    [
        *("<content>a &lt;b&gt; {}</content>", "<content><![CDATA[<p>{} & ]]></content>"),
        *('<content encoding="base64binary">QQ==</content>', ""),
    ],
)
def test_contents_of_several_kinds_do_not_end_a_block(
    content: str, caplog: pytest.LogCaptureFixture
) -> None:
    deletion = '<record url="http://www.example.com/{}" action="delete" mimetype="text/html"/>\n'
    plain = "<content>text</content>"
    records = [
        deletion.format(n)
        if n % 5 == 4
        else varied_record(n, inner=content.format(n) if n % 3 else plain)
        for n in range(200)
    ]
    assert planned(feed("".join(records), feedtype="incremental"), caplog) == 198


@pytest.mark.parametrize("target", ["gsa-feed", "avro", "jsonl"])
@pytest.mark.parametrize("feedtype", ["full", "incremental"])
def test_records_that_vary_are_written_by_plans_in_feeds_of_all_types(
    feedtype: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = [varied_record(n, inner=f"<content>{n}</content>") for n in range(200)]
    data = feed("".join(records), feedtype=feedtype)
    assert planned(data, caplog, target=Target(format=target)) == 199


@pytest.mark.parametrize(
    "order", ["@metadata@acl", "@content@metadata@acl", "@acl@content@metadata"]
)
def test_the_children_of_a_record_come_in_any_order(
    order: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = []
    for n in range(200):
        acl, metadata = varied_record(n).split("<metadata>")
        begin, acl = acl.split("<acl")
        metadata, _ = metadata.split("</record>")
        inner = order.replace("@acl", f"<acl{acl}").replace("@metadata", f"<metadata>{metadata}")
        records.append(f"{begin}{inner.replace('@content', f'<content>{n}</content>')}</record>")
    assert planned(feed("".join(records), feedtype="incremental"), caplog) == 199


ODD_ELEMENTS = (
    *('<meta name="google:aclusers" content="eve"/>', "<!-- a -->", "<meta name='a' content=''/>"),
    *(
        '<meta name="a" content=""/>',
        '<meta name="a" content=" x"/>',
        '<meta name="a" content="&#65;"/>',
    ),
    *(
        '<meta encoding="base64binary" name="YQ==" content="Yg=="/>',
        '<meta name="a"/>',
        "text",
        '"',
    ),
    *(
        '<meta name="a" content="b"></meta>',
        "<q/>",
        '<meta content="b" name="a"/>',
        "<x>\n<y/></x>",
    ),
)


@pytest.mark.parametrize("element", ODD_ELEMENTS)
def test_a_record_with_an_odd_element_goes_alone(
    element: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = [varied_record(n) for n in range(100)]
    records[50] = records[50].replace("</metadata>", f"{element}</metadata>")
    assert planned(feed("".join(records)), caplog) >= 97


@pytest.mark.parametrize(
    ("acl", "count"),
    [
        ("<acl>@</acl>", 99),
        ("<acl></acl>", 98),
        ("<acl/>", 98),
        (f"<acl>{GROUP}</acl>", 98),
        (f"<acl>{GROUP}{USER}</acl>", 99),
        ('<acl inherit-from="http://www.example.com/?folder">@</acl>', 98),
        ('<acl inherit-from="">@</acl>', 98),
        ("<acl><principal scope='user' access='permit'>a</principal></acl>", 99),
        ('<acl><principal scope="user" access="permit"> a</principal></acl>', 98),
        ('<acl><principal scope="user" access="permit"></principal></acl>', 98),
        ('<acl><principal scope="user" access="permit">a"b</principal></acl>', 98),
        ('<acl><principal scope="user" access="permit">a>b</principal></acl>', 98),
        ('<acl><principal scope="user" access="permit">&quot;</principal></acl>', 98),
        ('<acl><principal scope="robot" access="permit">a</principal></acl>', 98),
        ("<acl>@</acl><acl>@</acl>", 98),
    ],
)
def test_a_document_never_gets_the_acl_of_another(
    acl: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    records = [varied_record(n) for n in range(100)]
    records[50] = record(50, acl.replace("@", USER.format("only-50")).format(*[50] * 2))
    data = feed("".join(records))
    assert planned(data, caplog) in (count, count - 1)
    read = by_name("gsa-feed").read
    [chunk] = conversion(data, GSA_FEED, batch_records=7).files.values() if count == 99 else [data]
    stated = {
        result.url: result.acl for result in read(io.BytesIO(data)) if isinstance(result, Record)
    }
    for result in read(io.BytesIO(chunk)):
        if isinstance(result, Record):
            assert result.acl == stated[result.url]


def test_a_parent_in_single_quotes_is_not_taken_for_a_parent_that_is_stated() -> None:
    parents = ('"http://f.example.com/{}"', "''")
    records = [varied_record(n) for n in range(100)]
    records += [
        record(n, f"<acl inherit-from={parents[n % 9 == 0].format(n)}></acl>")
        for n in range(100, 200)
    ]
    data = feed("".join(records))
    found = conversion(data, GSA_FEED, batch_records=1024)
    assert found == conversion(data, GSA_FEED, batch_records=0)
    [chunk] = found.files.values()
    assert chunk.count(b"google:fakeUserToPreventMissingAcl") == 11


def test_lost_metadata_that_an_appliance_may_read_as_an_acl_are_a_loss_of_it() -> None:
    empty = "<metadata><meta name='{}' content=''/></metadata>"
    records = [varied_record(n) for n in range(100)]
    records += [
        record(n, empty.format("a" if n < 150 else "google:aclother")) for n in range(100, 200)
    ]
    found = conversion(feed("".join(records)), GSA_FEED, batch_records=1024)
    assert found == conversion(feed("".join(records)), GSA_FEED, batch_records=0)
    assert b'"acl":{"count":50,' in found.account


def test_elements_that_are_met_once_are_learned_within_a_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: list[str] = []
    learn = FeedBlocks._learn

    def note(blocks: FeedBlocks, kind: str, markup: str, key: Hashable) -> ElementShape | None:
        learned.append(kind)
        return learn(blocks, kind, markup, key)

    monkeypatch.setattr(FeedBlocks, "_learn", note)
    records = [varied_record(n).replace('name="', f'name="{n}-') for n in range(2000)]
    conversion(feed("".join(records)), GSA_FEED, batch_records=1024)
    assert 0 < len(learned) <= element_shapes._FREE_SHAPES
