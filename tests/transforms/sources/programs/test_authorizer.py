"""A program that is asked what users may see: what becomes of its answers, and of none."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from feedferry.schemas import avro
from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Content, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.programs.authorizer import MAX_BATCH_BYTES, authorize
from feedferry.transforms.sources.programs.calls import ProgramCalls
from feedferry.transforms.sources.programs.config import Programs, User
from support.listings import listed, python, stream

A, B, C = listed("a"), listed("b"), listed("c")
ANN, BEN = User(name="ann", namespace="corp"), User(name="ben")
ANN_MAY = Principal(name="ann", scope=Scope.USER, access=Access.PERMIT, namespace="corp")
ANN_MAY_NOT = Principal(name="ann", scope=Scope.USER, access=Access.DENY, namespace="corp")
BEN_MAY = Principal(name="ben", scope=Scope.USER, access=Access.PERMIT)
BEN_MAY_NOT = Principal(name="ben", scope=Scope.USER, access=Access.DENY)
DENY_BEN = Acl(principals=(BEN_MAY_NOT,))
NOBODY = Acl(principals=())


def authorizer(folder: Path, trouble: str, *users: User, **bounds: Any) -> Programs:
    kept = {"retries": 0, "timeout_seconds": 30.0, "folder": str(folder), **bounds}
    return Programs(
        lister=("list",),
        authorizer=python("authorizer.py", trouble),
        users=users or (ANN, BEN),
        **kept,
    )


def acls(results: list[ReadResult]) -> list[Acl | None]:
    return [record.acl for record in results if isinstance(record, Record)]


def notices(results: list[ReadResult]) -> list[Notice]:
    return [notice for notice in results if isinstance(notice, Notice)]


def codes_of_rejects(results: list[ReadResult]) -> list[str]:
    return [reject.code for reject in results if isinstance(reject, Reject)]


def authorized(records: list[ReadResult], programs: Programs) -> list[ReadResult]:
    return list(authorize(records, ProgramCalls(programs)))


def requests(folder: Path) -> list[str]:
    return (folder / "asked").read_text().splitlines()


def test_permit_and_deny_become_principals_and_nothing_else_changes(tmp_path: Path) -> None:
    record = Record(url="a", action=Action.ADD, content=Content(b"text"), mimetype="text/plain")
    results = authorized([record, B], authorizer(tmp_path, "good"))

    assert results == [
        msgspec.structs.replace(record, acl=Acl(principals=(ANN_MAY, BEN_MAY_NOT))),
        msgspec.structs.replace(B, acl=Acl(principals=(ANN_MAY_NOT, BEN_MAY))),
    ]


def test_each_batch_has_one_request_per_user(tmp_path: Path) -> None:
    authorized([A, B, C], authorizer(tmp_path, "good", authorizer_batch=2))

    assert requests(tmp_path) == [
        "username=ann id=a id=b",
        "username=ben id=a id=b",
        "username=ann id=c",
        "username=ben id=c",
    ]


def test_the_content_of_a_batch_is_limited(tmp_path: Path) -> None:
    big = Record(url="a", action=Action.ADD, content=Content(bytes(MAX_BATCH_BYTES // 2)))
    authorized([big, B], authorizer(tmp_path, "good", ANN))

    assert requests(tmp_path) == ["username=ann id=a", "username=ann id=b"]


def test_a_request_has_groups_and_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANNS", "s3same")
    ann = User(name="ann", groups=("managers", "staff"), password="${env:ANNS}")
    authorized([A], authorizer(tmp_path, "good", ann))

    expected = ["username=ann password=s3same group=managers group=staff id=a"]
    assert requests(tmp_path) == expected


def test_other_items_and_existing_acls_keep_their_place(tmp_path: Path) -> None:
    own = Record(url="own", action=Action.ADD, acl=Acl())
    gone = listed("gone", action=Action.DELETE)
    reject = Reject(code="no-stream", reason="nothing", stage="retrieve")
    results = authorized([A, gone, reject, own, B], authorizer(tmp_path, "good", ANN))

    assert (results[1:4], requests(tmp_path)) == ([gone, reject, own], ["username=ann id=a id=b"])


@pytest.mark.parametrize(
    ("behaviour", "expected", "noted"),
    [
        ("maybe", [DENY_BEN, NOBODY], ["indeterminate"]),
        ("missing", [DENY_BEN, NOBODY], ["indeterminate"]),
        ("small", [DENY_BEN, NOBODY], ["authz-status", "indeterminate"]),
        ("more", [DENY_BEN, Acl(principals=(BEN_MAY,))], []),
    ],
)
def test_only_a_clear_answer_becomes_a_principal(
    tmp_path: Path, behaviour: str, expected: list[Acl], noted: list[str]
) -> None:
    results = authorized([A, B], authorizer(tmp_path, behaviour, BEN))

    assert acls(results) == expected
    assert [*dict.fromkeys(notice.code for notice in notices(results))] == noted


@pytest.mark.parametrize(
    ("behaviour", "status"), [("maybe", "INDETERMINATE"), ("missing", "no answer")]
)
def test_a_missing_decision_is_a_notice_with_its_document(
    tmp_path: Path, behaviour: str, status: str
) -> None:
    detail = f"{status} for user 'ben' and 'b'; the ACL does not name the user"
    assert notices(authorized([B], authorizer(tmp_path, behaviour, BEN))) == [
        Notice(code="indeterminate", detail=detail, source="listing", span=2, offset=33)
    ]


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        ("exit", "program-exit"),
        ("signal", "program-signal"),
        ("empty", "no-stream"),
        ("unavailable", "repository-unavailable"),
        ("unreadable", "bad-command"),
        ("nameless", "no-argument"),
    ],
)
def test_a_failure_and_an_unreadable_answer_reject_all_documents_of_the_request(
    tmp_path: Path, trouble: str, code: str
) -> None:
    results = authorized([A, B], authorizer(tmp_path, trouble, ANN))

    assert codes_of_rejects(results) == [code, code]


def test_a_reject_contains_the_whole_record(tmp_path: Path) -> None:
    assert authorized([A], authorizer(tmp_path, "exit", ANN)) == [
        Reject(
            code="program-exit",
            reason="exit code 1; expected 0; stderr ends 'no such disk'",
            stage="authorize",
            source="listing",
            span=2,
            offset=33,
            url="a",
            action="ADD",
            data=avro.encode(A),
        )
    ]


def test_an_unusable_id_does_not_affect_other_documents(tmp_path: Path) -> None:
    results = authorized([listed("a\0b"), A], authorizer(tmp_path, "good", ANN))

    assert (len(codes_of_rejects(results)), acls(results)) == (1, [Acl(principals=(ANN_MAY,))])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        *(((name, "id=a", "authz-status=PERMIT"), ()) for name in ("username=root", "user=root")),
        *(((name, "id=a", "authz-status=PERMIT"), ()) for name in ("username=", "username=Ann")),
        (("username=ann", "id=a", "authz-status=PERMIT"), (ANN_MAY,)),
        (
            ("id=a", "authz-status=DENY", "username=root", "id=a", "authz-status=PERMIT"),
            (ANN_MAY_NOT,),
        ),
    ],
)
def test_an_answer_that_names_another_user_is_ignored(
    lines: tuple[str, ...], expected: tuple[Principal, ...]
) -> None:
    command = ("printf", "%s", stream(*lines).decode())
    programs = Programs(lister=("list",), authorizer=command, users=(ANN,))

    results = authorized([A], programs)

    assert acls(results) == [Acl(principals=expected)]
    assert [notice.code for notice in notices(results)] == ["indeterminate"] * (not expected)
