"""A rejected document is shown to nobody at a target that can withhold it."""

import csv
import json
from pathlib import Path

import pytest

from support.archives import put
from support.runs import convert, manifest, report

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]

HOST = "http://docs.example.com/"
PLAIN = f'<record url="{HOST}plain" mimetype="text/plain"><content>plain</content></record>'
CHAIN = f'<acl inherit-from="{HOST}nowhere/"/>'
BROKEN = f'<record url="{HOST}broken" mimetype="text/plain">{CHAIN}<content>x</content></record>'
UNREADABLE = (
    f'<record url="{HOST}unreadable" mimetype="text/plain">'
    '<content encoding="base64binary">%%%</content></record>'
)
UPDATE = (
    f'<record url="{HOST}update" mimetype="text/plain">'
    '<metadata><meta name="a" content="b"/></metadata></record>'
)
FOLDER = (
    f'<acl url="{HOST}nowhere/" inheritance-type="child-overrides">'
    '<principal scope="user" access="permit">bob</principal></acl>'
)
STAFF = f'<record url="{HOST}staff" mimetype="text/plain">{CHAIN}<content>staff</content></record>'


OF_OTHER_PARTS = {"acl_2_permit_1": ["*"], "acl_3_permit_1": ["*"]}


def feed(*records: str, feedtype: str = "incremental") -> None:
    header = f"<header><datasource>docs</datasource><feedtype>{feedtype}</feedtype></header>"
    text = f"<gsafeed>{header}<group>{''.join(records)}</group></gsafeed>"
    put(Path("feed.xml"), text.encode())


def written(*flags: str, to: str = "opensearch") -> list[tuple[str, str, list[str]]]:
    """Convert the feed; return the actions, their ids, and the tokens that they state."""
    convert("feed.xml", "-o", "out", "--to", to, "--fresh", *flags)
    lines = [
        json.loads(line)
        for path in sorted(Path("out/chunks").iterdir())
        for line in path.read_text("utf-8").splitlines()
    ]
    found: list[tuple[str, str, list[str]]] = []
    for line in lines:
        [(name, value), *_] = line.items()
        if "_id" in (value if isinstance(value, dict) else {}):
            found.append((name, value["_id"].removeprefix(HOST), []))
        else:
            fields = line["script"]["params"]["fields"] if name == "script" else line
            found[-1][2].extend(
                token
                for key, tokens in fields.items()
                if key == "acl_1_permit_1"
                for token in tokens
            )
    return found


@pytest.mark.parametrize(
    ("rejected", "name", "code"),
    [
        (BROKEN, "broken", "acl-chain-broken"),
        (UNREADABLE, "unreadable", "bad-base64"),
        (UPDATE, "update", "partial-update"),
    ],
)
def test_a_rejected_document_is_hidden_at_its_place(rejected: str, name: str, code: str) -> None:
    feed(PLAIN, rejected, PLAIN.replace("plain", "later"))
    assert written() == [
        ("index", "plain", ["*"]),
        ("update", name, []),
        ("index", "later", ["*"]),
    ]
    account = report("out")["account"]
    assert account["reject_codes"] == {code: 1}
    assert account["notices"]["withheld"]["count"] == 1
    assert account["expanded"] == {"UPDATE": 1}


@pytest.mark.parametrize(
    ("rejected", "fields"),
    [
        (BROKEN, OF_OTHER_PARTS),
        (BROKEN.replace(CHAIN, '<acl><principal scope="robot"/></acl>'), OF_OTHER_PARTS),
        (FOLDER.replace('"permit"', '"permt"'), OF_OTHER_PARTS),
        (UNREADABLE, {"acl_1_deny_1": ["*"]}),
        (UPDATE, {"acl_1_deny_1": ["*"]}),
    ],
)
def test_an_acl_alone_shows_a_document_again_only_if_its_acl_was_the_reason(
    rejected: str, fields: dict[str, list[str]]
) -> None:
    feed(rejected)
    written()
    [chunk] = Path("out/chunks").iterdir()
    assert json.loads(chunk.read_bytes().splitlines()[1])["script"]["params"]["fields"] == fields


@pytest.mark.parametrize("feedtype", ["incremental", "full"])
def test_a_reject_before_the_first_record_of_its_feed_is_hidden_there(feedtype: str) -> None:
    feed(UNREADABLE, PLAIN, feedtype=feedtype)
    assert written("--accept-holes") == [("update", "unreadable", []), ("index", "plain", ["*"])]
    (chunk,) = manifest("out")
    assert (chunk["datasource"], chunk["feedtype"]) == ("docs", feedtype)


def test_a_reject_is_hidden_in_a_feed_without_any_record() -> None:
    feed(UNREADABLE)
    assert written() == [("update", "unreadable", [])]


def test_rejects_of_several_feeds_are_hidden_each_in_its_datasource() -> None:
    feed(PLAIN)
    text = Path("feed.xml").read_text("utf-8")
    put(Path("other.xml"), text.replace(">docs<", ">more<").replace(PLAIN, UNREADABLE).encode())
    convert("feed.xml", "other.xml", "-o", "out", "--to", "opensearch", "--fresh")
    assert [chunk["datasource"] for chunk in manifest("out")] == ["docs", "more"]


def test_the_next_good_version_is_written_after_it() -> None:
    feed(BROKEN, PLAIN.replace("plain", "broken"))
    assert [action for action, name, _ in written() if name == "broken"] == ["update", "index"]


def test_a_chain_that_is_complete_is_resolved_without_a_step_of_the_user() -> None:
    feed(FOLDER, STAFF)
    assert written() == [
        ("update", "nowhere/", ["us:Default:bob"]),
        ("index", "staff", ["us:Default:bob"]),
    ]


def test_a_target_with_acls_of_its_own_withholds_nothing() -> None:
    feed(PLAIN, UNREADABLE)
    convert("feed.xml", "-o", "out", "--to", "gsa-feed", "--fresh")
    assert "withheld" not in report("out")["account"]["notices"]


def test_withheld_documents_are_listed_with_the_reasons() -> None:
    feed(BROKEN, PLAIN, UNREADABLE)
    written()
    with Path("out/withheld.csv").open(encoding="utf-8", newline="") as lines:
        rows = [*csv.DictReader(lines)]
    assert [(row["url"], row["datasource"], row["code"], row["where"]) for row in rows] == [
        (f"{HOST}broken", "docs", "acl-chain-broken", "feed.xml:1 (byte 94)"),
        (f"{HOST}unreadable", "docs", "bad-base64", "feed.xml:1 (byte 343)"),
    ]
    assert rows[1]["message"] == "3 bytes that are no base64; expected base64"
    assert "withheld.csv" in Path("out/report.html").read_text("utf-8")
    notice = report("out")["account"]["notices"]["withheld"]
    assert (notice["count"], notice["first"]["offset"]) == (2, 94)


def test_the_first_record_of_a_feed_is_hidden_too() -> None:
    feed(UNREADABLE)
    assert written() == [("update", "unreadable", [])]


def test_a_hole_of_a_full_feed_is_hidden_in_that_feed() -> None:
    feed(UNREADABLE, PLAIN, feedtype="full")
    assert written("--accept-holes") == [("update", "unreadable", []), ("index", "plain", ["*"])]
    lines = [
        json.loads(line) for line in Path("out/manifest.jsonl").read_text("utf-8").splitlines()
    ]
    assert [line["asked"] for line in lines] == ["full"]


def test_a_rejected_group_hides_no_document() -> None:
    group = "<membership><principal>staff</principal><principal>x</principal></membership>"
    put(Path("feed.xml"), f"<xmlgroups>{group}</xmlgroups>".encode())
    assert written("--datasource", "docs") == []
    assert report("out")["account"]["reject_codes"] == {"bad-membership": 1}


def test_the_list_has_all_of_them_in_the_order_of_the_input() -> None:
    documents = (
        UNREADABLE.replace("unreadable", f"{number:04},&quot;b&quot;") for number in range(300)
    )
    feed(*documents)
    written("--span-bytes", "4KiB")
    with Path("out/withheld.csv").open(encoding="utf-8", newline="") as lines:
        urls = [row["url"] for row in csv.DictReader(lines)]
    assert urls == [f'{HOST}{number:04},"b"' for number in range(300)]


def test_a_run_without_rejects_has_no_list_also_of_an_earlier_run() -> None:
    feed(UNREADABLE)
    written()
    feed(PLAIN)
    written()
    assert not Path("out/withheld.csv").exists()


def test_nothing_is_hidden_without_withhold_and_the_account_says_so() -> None:
    feed(PLAIN, BROKEN)
    assert written("--no-withhold") == [("index", "plain", ["*"])]
    notices = report("out")["account"]["notices"]
    assert notices["not-withheld"]["count"] == 1
    assert "withheld" not in notices
    assert not Path("out/withheld.csv").exists()


def test_the_account_counts_parts_without_a_url_that_may_be_acls() -> None:
    feed(PLAIN, FOLDER.replace(' url="', ' ur="'), "<acl <record", PLAIN.replace("plain", "later"))
    written()
    account = report("out")["account"]
    notice = account["notices"]["not-withheld"]
    assert (notice["count"], account["rejected"]) == (2, {"unreadable": 2})
    assert notice["first"]["detail"] == (
        "acl-without-url without a URL: it may be a newer version or ACL of any document, which the"
        " target may show as before"
    )


def test_a_conversion_without_a_job_notes_the_acls_that_it_does_not_keep() -> None:
    alone = FOLDER.replace('nowhere/" inheritance-type="child-overrides"', 'plain"')
    feed(alone, FOLDER)
    written()
    notice = report("out")["account"]["notices"]["acls-not-kept"]
    assert notice["count"] == 1
    assert notice["first"]["detail"].startswith(
        "1 ACLs that arrived alone, such as that of 'http://docs.example.com/plain';"
    )
