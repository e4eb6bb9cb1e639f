"""Steps: what each does to a record, and what it refuses."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.content import compress, decode, to_base64
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import (
    Action,
    Anchor,
    Content,
    Crawl,
    Encoding,
    Field,
    Meta,
    Provenance,
    Record,
)
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.steps import AppliedSteps, read_steps
from feedferry.transforms.steps.tables import Table, load_table

OLD, NEW = "http://old.example.com/", "https://new.example.com/"
URLS = f"urls: {{rewrite: [['{OLD}', '{NEW}']]}}"


def steps(folder: Path, *entries: str) -> AppliedSteps:
    """Return the steps of a file with these entries."""
    path = folder / "steps.yaml"
    path.write_text("transform:\n" + "".join(f"- {entry}\n" for entry in entries))
    return read_steps(path).make()


def page(name: str = "a", **fields: object) -> Record:
    values = {"action": Action.ADD, "mimetype": "text/html", **fields}
    return Record(url=OLD + name, **values)  # type: ignore[arg-type]  # its fields


def permit(*names: str, access: Access = Access.PERMIT) -> tuple[Principal, ...]:
    return tuple(Principal(name=name, scope=Scope.USER, access=access) for name in names)


def one(applied: AppliedSteps, record: Record) -> Record:
    (result,) = applied.apply(record)
    assert isinstance(result, Record)
    return result


def kept(applied: AppliedSteps, *given_records: Record) -> list[str]:
    """The names of the pages that are not filtered."""
    results = [item for record in given_records for item in applied.apply(record)]
    return [item.url.rpartition("/")[2] for item in results if isinstance(item, Record)]


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ('drop: {mimetype: "image/*"}', ["page", "gone"]),
        ("keep: {url: 're:.*/p.*'}", ["page", "picture", "gone"]),
        ("keep: {url: '*/page'}", ["page", "gone"]),
        ("drop: {metadata: {lang: [de, fr]}}", ["picture", "gone"]),
        ("keep: {acl: present}", ["picture", "gone"]),
        ("keep: {principal: 'ACME\\*'}", ["picture", "gone"]),
        ("drop: {larger_than: 3B}", ["page", "gone"]),
        ("drop: {smaller_than: 4B}", ["picture", "gone"]),
        ("keep: {acl: absent}", ["page", "gone"]),
        ("drop: {modified_after: 2024-01-31, modified_before: 2024-02-01}", ["picture", "gone"]),
        ("drop: {action: [add, delete-pattern]}", ["gone"]),
        ("drop: {action: delete}", ["page", "picture"]),
        ("keep: {datasource: docs, mimetype: 'text/*'}", ["page", "gone"]),
    ],
)
def test_records_are_filtered_and_deletions_pass_unless_an_action_names_them(
    entry: str, names: list[str], tmp_path: Path
) -> None:
    applied = steps(tmp_path, entry)
    docs = Provenance(datasource="docs")
    page_ = page(
        "page",
        metadata=(Meta("lang", "de"),),
        content=Content(b"abc"),
        provenance=docs,
        modified=datetime(2024, 1, 31, 12, tzinfo=UTC),
    )
    acl = Acl(principals=permit("ACME\\joe"))
    picture = page("picture", mimetype="image/png", acl=acl, content=Content(b"abcd"))
    gone = page("gone", action=Action.DELETE, mimetype=None)
    assert kept(applied, page_, picture, gone) == names
    assert +applied.changed == Counter()


def test_a_file_of_steps_may_be_a_list(tmp_path: Path) -> None:
    path = tmp_path / "steps.yaml"
    path.write_text(f"- {URLS}\n- drop: {{url: '*/x'}}\n")
    assert read_steps(path).names == ("urls", "drop")
    path.write_text("- keep: {larger_than: 3x}\n- drop: {url: 're:('}\n")
    with pytest.raises(ConfigError) as caught:
        read_steps(path)
    assert [line.partition("; ")[0] for line in str(caught.value).splitlines()] == [
        f"{path}:1:23: transform[0].keep.larger_than: '3x'",
        f"{path}:2:15: transform[1].drop.url: 're:(': missing ), unterminated subpattern at"
        " position 0",
    ]


def test_steps_that_cannot_be_made_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        steps(
            tmp_path,
            "principals: {table: people.csv}",
            "metadata: {values: {a: places.csv}}",
            "python: rules.py:change",
        )
    lines = str(caught.value).splitlines()
    names = ("people.csv", "places.csv", "rules.py")
    assert [name in line for name, line in zip(names, lines, strict=True)] == [True] * 3


def test_a_filtered_record_has_the_name_of_its_step(tmp_path: Path) -> None:
    applied = steps(tmp_path, "drop: {url: '*/x'}", "{name: no-pages, drop: {mimetype: text/html}}")
    results = [applied.apply(page(name))[0] for name in ("x", "y")]
    assert [item.code for item in results if isinstance(item, Filtered)] == ["drop", "no-pages"]


def test_urls_are_rewritten_in_all_fields_and_in_groups(tmp_path: Path) -> None:
    applied = steps(tmp_path, URLS)
    acl = Acl(inherit_from=OLD + "folder", principals=permit(OLD + "group", "joe"))
    crawl = Crawl(display_url=OLD + "show", anchors=(Anchor(OLD + "link", "text"),))
    record = one(applied, page(acl=acl, crawl=crawl))
    assert OLD not in str(record)
    assert str(record).count(NEW) == 5
    group = Member(name=OLD + "group", scope=Scope.GROUP)
    (membership,) = applied.apply(Membership(group=group))
    assert membership == Membership(group=Member(name=NEW + "group", scope=Scope.GROUP))
    assert applied.changed == {"urls": 2}


def test_a_url_is_rewritten_by_an_expression(tmp_path: Path) -> None:
    applied = steps(
        tmp_path,
        r"urls: {rewrite: [['re:http://(\w+)\.example\.com/(.*)', 'https://\1.b.com/\2']]}",
    )
    assert one(applied, page("a?b")).url == "https://old.b.com/a?b"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (r"re:http://(?P<host>\w+)(\..*)?/(.*)", r"{\g<host>}%\3", "{old}%a"),
        (r"re:.*/(b)?(.*)", r"\1\\\2\101", "\\aA"),
        ("re:.*", r"\g<0>?\g<0>", f"{OLD}a?{OLD}a"),
    ],
)
def test_the_new_text_of_an_expression_is_a_template_of_its_groups(
    old: str, new: str, expected: str, tmp_path: Path
) -> None:
    applied = steps(tmp_path, f"urls: {{rewrite: [['{old}', '{new}']]}}")
    assert one(applied, page("a")).url == expected


def test_each_wildcard_of_a_new_name_has_the_text_of_the_old_one(tmp_path: Path) -> None:
    applied = steps(tmp_path, "principals: {rewrite: [['A?*', '{*}-*-*']]}")
    record = one(applied, page(acl=Acl(principals=permit("Abob{0}"))))
    assert record.acl == Acl(principals=permit("{b}-ob{0}-"))


@pytest.mark.parametrize(("new", "found"), [(r"\2", "group reference 2"), (r"\g<x>", "group name")])
def test_a_new_text_without_its_group_is_refused(new: str, found: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        steps(tmp_path, f"urls: {{rewrite: [['re:(.*)', '{new}']]}}")
    assert found in str(caught.value)
    assert "expected references to groups of 're:(.*)'" in str(caught.value)


def test_metadata_are_changed_and_moved(tmp_path: Path) -> None:
    (tmp_path / "kinds.csv").write_text("n,news\nb,blog\n")
    applied = steps(
        tmp_path,
        "metadata: {rename: {Kind: kind}, drop: 'x-*', split: {tags: ';'}, set: {site: intranet},"
        " values: {kind: kinds.csv},"
        " move: {'metadata:Title': title, 'metadata:tags': 'field:tag'}}",
    )
    pairs = (Meta("Kind", "n"), Meta("x-a", "1"), Meta("tags", "a; b"), Meta("Title", "T"))
    record = one(applied, page(metadata=pairs))
    assert record.metadata == (Meta("kind", "news"), Meta("site", "intranet"))
    assert (record.title, record.fields) == ("T", (Field("tag", ("a", "b"), many=True),))


def test_principals_are_mapped_in_acls_and_groups(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("ACME\\old,new@acme.example.com\n")
    applied = steps(
        tmp_path, "principals: {table: people.csv, rewrite: [['ACME\\*', '*@acme.example.com']]}"
    )
    record = one(applied, page(acl=Acl(principals=permit("ACME\\old", "ACME\\bob", "other"))))
    names = ("new@acme.example.com", "bob@acme.example.com", "other")
    assert record.acl == Acl(principals=permit(*names))
    group, user = (Member(name=f"ACME\\{name}", scope=Scope.USER) for name in ("staff", "old"))
    (membership,) = applied.apply(Membership(group=group, members=(user,)))
    assert isinstance(membership, Membership)
    assert [membership.group.name, membership.members[0].name] == [
        "staff@acme.example.com",
        "new@acme.example.com",
    ]


@pytest.mark.parametrize(
    "entry", ["principals: {table: people.csv}", "metadata: {values: {author: people.csv}}"]
)
def test_the_spans_of_a_worker_share_the_copy_of_a_table(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people.csv").write_text("joe,joseph\n")
    copied: list[Table] = []
    pairs = Table._pairs

    def note(table: Table) -> Iterator[tuple[int, str, str]]:
        copied.append(table)
        return pairs(table)

    monkeypatch.setattr(Table, "_pairs", note)
    for _ in range(3):
        steps(tmp_path, entry)
    assert len(copied) == 1


def test_a_worker_copies_a_table_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"

    def names_of_runs() -> list[str]:
        """Return the name that joe gets from the steps of each of two spans."""
        record = page(acl=Acl(principals=permit("joe")))
        applied = [steps(tmp_path, "principals: {table: people.csv}") for _ in range(2)]
        acls = [one(each, record).acl for each in applied]
        return [acl.principals[0].name for acl in acls if acl is not None]

    path.write_text("joe,joseph\n")
    assert names_of_runs() == ["joseph", "joseph"]
    assert load_table(path) is load_table(path)
    before = load_table(path)
    path.write_text("joe,jojo\n")
    assert names_of_runs() == ["jojo", "jojo"]
    with ThreadPoolExecutor() as pool:
        other = pool.submit(lambda: (load_table(path), load_table(path).find("joe"))).result()
    assert other[1] == "jojo"
    assert len({before, load_table(path), other[0]}) == 3


@pytest.mark.parametrize("access", Access)
def test_an_unmapped_principal_never_makes_a_document_more_visible(
    access: Access, tmp_path: Path
) -> None:
    entry = "principals: {{rewrite: [['A\\*', '*']], unmapped: {}}}".format
    record = page(acl=Acl(principals=permit("joe", access=access)))
    (denied,) = steps(tmp_path, entry("deny")).apply(record)
    if access is Access.PERMIT:
        assert isinstance(denied, Record)
        assert denied.acl == Acl()
        assert denied.acl.permits_nobody
    else:
        assert isinstance(denied, Reject)
    (rejected,) = steps(tmp_path, entry("reject")).apply(record)
    assert isinstance(rejected, Reject)
    assert (rejected.code, rejected.stage) == ("principal-unmapped", "transform")


def test_a_group_that_would_lose_a_member_is_rejected(tmp_path: Path) -> None:
    applied = steps(tmp_path, "principals: {rewrite: [['A\\*', '*']], unmapped: deny}")
    group = Member(name="A\\staff", scope=Scope.GROUP)
    ann, joe = (Member(name=name, scope=Scope.USER) for name in ("A\\ann", "joe"))
    (whole,) = applied.apply(Membership(group=group, members=(ann,)))
    assert isinstance(whole, Membership)
    assert [member.name for member in whole.members] == ["ann"]
    (rejected,) = applied.apply(Membership(group=group, members=(ann, joe)))
    assert isinstance(rejected, Reject)
    assert (rejected.code, rejected.url) == ("principal-unmapped", "A\\staff")


@pytest.mark.parametrize("stated", [None, "", "Default"])
def test_a_principal_without_a_namespace_is_in_the_default_one(
    stated: str | None, tmp_path: Path
) -> None:
    applied = steps(tmp_path, "principals: {namespaces: {Default: people}}")
    (principal,) = permit("ann")
    record = one(applied, page(acl=Acl(principals=(replace(principal, namespace=stated),))))
    assert record.acl == Acl(principals=(replace(principal, namespace="people"),))


def test_a_principal_without_a_name_gets_none(tmp_path: Path) -> None:
    applied = steps(tmp_path, "principals: {rewrite: [['*', 'x-*']], unmapped: reject}")
    record = one(applied, page(acl=Acl(principals=permit(" ", "ann"))))
    assert record.acl == Acl(principals=permit(" ", "x-ann"))


def test_contents_are_left_out(tmp_path: Path) -> None:
    applied = steps(tmp_path, "content: {drop: 'image/*', max_bytes: 3B}")
    contents = [page(content=Content(b"abc")), page(content=Content(b"abcd"))]
    contents.append(page(content=Content(b"a"), mimetype="image/png"))
    assert [one(applied, record).content for record in contents] == [Content(b"abc"), None, None]


@pytest.mark.parametrize(
    "entry",
    [
        "metadata: {drop: '*'}",
        "metadata: {rename: {'google:aclusers': user}}",
        "metadata: {move: {'metadata:google:aclusers': title}}",
    ],
)
def test_an_acl_in_metadata_is_no_metadata(entry: str, tmp_path: Path) -> None:
    applied = steps(tmp_path, entry, "principals: {rewrite: [['*', 'new-*']]}")
    record = one(applied, page(metadata=(Meta("google:aclusers", "bob"),)))
    assert record.acl == Acl(principals=permit("new-bob"))


LATIN = "<meta charset={}><p>Grüße".format


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-8"])
def test_texts_become_utf_8_with_their_declarations(
    charset: str, encoding: Encoding, tmp_path: Path
) -> None:
    applied = steps(tmp_path, "content: {utf8: declared}")
    data = LATIN(charset).encode(charset) * 40
    given_content = encode_as(data, encoding)
    record = one(applied, page(content=given_content, size=len(data)))
    assert record.content is not None
    text = decode(record.content, max_bytes=100_000).decode()
    assert text == LATIN("utf-8") + LATIN(charset) * 39
    assert (record.content.encoding, record.size) == (encoding, len(text.encode()))


def encode_as(data: bytes, encoding: Encoding) -> Content:
    if encoding is Encoding.ZLIB_BASE64:
        return compress(Content(data))
    return Content(data if encoding is Encoding.NONE else to_base64(Content(data)), encoding)


def test_the_charset_of_a_text_is_its_own_that_of_its_record_or_the_named(tmp_path: Path) -> None:
    applied = steps(tmp_path, "content: {utf8: windows-1252}")
    records_ = [
        page(content=Content("Grüße".encode("utf-16"))),
        page(content=Content("Grüße".encode("iso-8859-5", "replace")), charset="iso-8859-5"),
        page(content=Content("€".encode("windows-1252"))),
        page(content=Content("€".encode())),
        page(content=Content(b"\x80"), mimetype="image/png"),
        page(content=Content(b"\x80"), mimetype="message/rfc822"),
    ]
    contents = [one(applied, record).content for record in records_]
    assert [content.data for content in contents if content] == [
        *map(str.encode, ("Grüße", "Gr??e", "€", "€")),
        *[b"\x80"] * 2,
    ]


@pytest.mark.parametrize(
    ("data", "charset", "code"),
    [(b"\x80", None, "charset-unknown"), (b"\x80", "us-ascii", "charset-wrong")],
)
def test_a_text_that_cannot_be_re_encoded_is_rejected(
    data: bytes, charset: str | None, code: str, tmp_path: Path
) -> None:
    applied = steps(tmp_path, "content: {utf8: declared}")
    (rejected,) = applied.apply(page(content=Content(data), charset=charset))
    assert isinstance(rejected, Reject)
    assert rejected.code == code


def test_a_function_of_the_user_is_called_and_its_errors_are_rejects(tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text(
        "def twice(record):\n    if record.url.endswith('x'):\n        raise ValueError('no x')\n"
        "    return [record, record] if record.title else None\n"
    )
    applied = steps(tmp_path, "python: {function: 'my_rules:twice', from_job_folder: true}")
    assert len(applied.apply(page(title="T"))) == 2
    assert [type(item) for item in applied.apply(page())] == [Filtered]
    (failed,) = applied.apply(page("x"))
    assert isinstance(failed, Reject)
    assert (failed.code, failed.reason) == ("python-failed", "my_rules:twice: ValueError: no x")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("urls: {rewrite: 3}", "expected a list of pairs"),
        ("urls: {rewrite: [['re:(', 'a']]}", "expected a regular expression"),
        ("drop: {}", "no condition"),
        ("content: {utf8: no-such}", "a charset such as"),
        ("{keep: {url: a}, drop: {url: b}}", "one step in each entry"),
        ("principals: {unmapped: deny, case: lower}", "unmapped without"),
        ("python: no_such_module:f", "no_such_module"),
        ("python: 'os.path'", "expected package.module:function"),
        ("metadata: {values: {a: missing.csv}}", "missing.csv"),
        ("principals: {table: twice.csv}", "'a' has another value in line 1"),
        ("principals: {table: wide.csv}", "3 values; expected two"),
    ],
)
def test_a_step_that_cannot_be_used_is_explained_before_a_record_is_read(
    entry: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "twice.csv").write_text("a,1\na,2\n")
    (tmp_path / "wide.csv").write_text("a,1,2\n")
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        steps(tmp_path, entry)
