"""The step `acl`: chains of ACLs as one ACL without a parent."""

from collections.abc import Iterable
from itertools import chain, combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import ConfigError, StoppedError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Action, Meta, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.steps import AppliedSteps, StepResult, read_steps
from support.stated_inputs import StatedInputs

USERS, GROUPS = ("ann", "bob", "cid"), ("g", "h")
URLS = [f"http://www.example.com/{number}" for number in range(4)]
EFFECTIVE, LENIENT = "acl: effective", "acl: {inexact: deny}"
TYPES = [Inheritance.PARENT_OVERRIDES, Inheritance.CHILD_OVERRIDES, Inheritance.AND_BOTH_PERMIT]
PERMIT, DENY = Access.PERMIT, Access.DENY


def results(
    entry: str,
    records: Iterable[ReadResult],
    groups: Iterable[ReadResult] = (),
    accepted: str = "",
) -> list[StepResult]:
    """Return the results of records after a list of one step, or of the entries of several."""
    stated = [*records]
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "steps.yaml").write_text(f"transform:\n- {entry}\n")
        steps = read_steps(folder / "steps.yaml")
        steps.prepare(StatedInputs(stated, groups, accepted), folder)
        applied: AppliedSteps = steps.make(folder)
        read = [item for item in stated if isinstance(item, Record)]
        return [item for record in read for item in applied.apply(record)]


def principal(text: str) -> Principal:
    """`+ann` permits a user, `-g` denies a group."""
    name = text[1:]
    scope = Scope.GROUP if name in GROUPS else Scope.USER
    return Principal(name=name, scope=scope, access=PERMIT if text[0] == "+" else DENY)


def node(
    at: int,
    words: str = "",
    inheritance: Inheritance | None = Inheritance.CHILD_OVERRIDES,
    parent: int | None = None,
) -> Record:
    acl = Acl(
        principals=tuple(map(principal, words.split())),
        inheritance=inheritance,
        inherit_from=None if parent is None else URLS[parent],
    )
    return Record(url=URLS[at], action=Action.ADD, acl=acl)


def words_of(result: StepResult) -> str:
    """Return the principals of a result without a parent, or the code of its reject."""
    if isinstance(result, Reject):
        return result.code
    assert isinstance(result, Record)
    assert result.acl is not None
    assert (result.acl.inherit_from, result.acl.inheritance) == (None, None)
    return " ".join("-+"[item.access is PERMIT] + item.name for item in result.acl.principals)


def own_decision(acl: Acl, names: set[str]) -> Access | None:
    accesses = {item.access for item in acl.principals if item.name in names}
    return DENY if DENY in accesses else PERMIT if accesses else None


def slow_decision(chain_: list[Acl], names: set[str]) -> Access | None:
    """Decide as the guide does: `chain_` begins with the ACL of the document."""
    own = own_decision(chain_[0], names)
    if len(chain_) == 1:
        return own
    parent = slow_decision(chain_[1:], names)
    if chain_[1].inheritance is Inheritance.AND_BOTH_PERMIT:
        return PERMIT if own is PERMIT and parent is PERMIT else DENY
    if chain_[1].inheritance is Inheritance.CHILD_OVERRIDES:
        return parent if own is None else own
    return own if parent is None else parent


PRINCIPALS = [sign + name for sign in "+-" for name in (*USERS, *GROUPS)]
CHAINS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(PRINCIPALS), max_size=4, unique=True).map(" ".join),
        st.sampled_from(TYPES),
    ),
    min_size=1,
    max_size=4,
)
MEMBERS = st.fixed_dictionaries(
    {group: st.lists(st.sampled_from([*USERS, *GROUPS]), unique=True) for group in GROUPS}
)


def nodes(stated: list[tuple[str, Inheritance]]) -> list[Record]:
    last = len(stated) - 1
    return [
        node(at, words, inheritance, None if at == last else at + 1)
        for at, (words, inheritance) in enumerate(stated)
    ]


def acls(records: Iterable[Record]) -> list[Acl]:
    return [record.acl for record in records if record.acl is not None]


def groups_of(user: str, members: dict[str, list[str]]) -> set[str]:
    names = {user}
    for _ in GROUPS:
        names |= {group for group in GROUPS if names & {*members[group]}}
    return names


@given(CHAINS)
def test_one_acl_never_permits_more_than_its_chain_and_is_the_same_where_it_is_exact(
    stated: list[tuple[str, Inheritance]],
) -> None:
    records = nodes(stated)
    first, *_ = results(LENIENT, records)
    is_exact = isinstance(results(EFFECTIVE, records)[0], Record)
    assert isinstance(first, Record)
    sets = list(chain.from_iterable(combinations(GROUPS, count) for count in range(3)))
    for user in (*USERS, "other"):
        for names in ({user, *groups} for groups in sets):
            effective = slow_decision(acls([first]), names) is PERMIT
            expected = slow_decision(acls(records), names) is PERMIT
            assert effective <= expected
            assert not is_exact or effective == expected


@given(CHAINS, MEMBERS)
def test_with_groups_one_acl_decides_as_its_chain_about_every_user(
    stated: list[tuple[str, Inheritance]], members: dict[str, list[str]]
) -> None:
    records = nodes(stated)
    memberships = [
        Membership(group=named(group), members=tuple(map(named, names)))
        for group, names in members.items()
    ]
    first, *_ = results("acl: {groups: groups.xml}", records, memberships)
    assert isinstance(first, Record)
    for user in (*USERS, "other"):
        expected = slow_decision(acls(records), groups_of(user, members)) is PERMIT
        assert (slow_decision(acls([first]), {user}) is PERMIT) == expected


def named(name: str) -> Member:
    return Member(name=name, scope=Scope.GROUP if name in GROUPS else Scope.USER)


@pytest.mark.parametrize(
    ("own", "parent", "rule", "expected"),
    [
        ("+ann -bob", "-ann +bob +cid", Inheritance.CHILD_OVERRIDES, "-bob +ann +cid"),
        ("+ann -bob", "-ann +bob +cid", Inheritance.PARENT_OVERRIDES, "-ann +bob +cid"),
        ("+ann +bob +g", "+bob +g -cid", Inheritance.AND_BOTH_PERMIT, "-cid +bob +g"),
        ("", "+g", Inheritance.CHILD_OVERRIDES, "+g"),
        ("", "+g", Inheritance.AND_BOTH_PERMIT, ""),
        ("+g", "+h", Inheritance.AND_BOTH_PERMIT, "acl-inexact"),
        ("-ann", "+g", Inheritance.PARENT_OVERRIDES, "acl-inexact"),
        ("+ann", "", None, "acl-chain-leaf"),
        ("+ann", "", Inheritance.LEAF_NODE, "acl-chain-leaf"),
    ],
)
def test_the_type_of_the_parent_says_which_acl_counts(
    own: str, parent: str, rule: Inheritance | None, expected: str
) -> None:
    child, _ = results(EFFECTIVE, [node(0, own, None, 1), node(1, parent, rule)])
    assert words_of(child) == expected


def test_where_one_acl_cannot_state_a_chain_fewer_users_are_permitted_if_the_step_says_so() -> None:
    share = node(1, "+h +ann", Inheritance.AND_BOTH_PERMIT)
    child, _ = results(LENIENT, [node(0, "+g +ann", None, 1), share])
    assert words_of(child) == "+ann"


def test_a_chain_that_does_not_end_is_rejected() -> None:
    cycle = [node(0, "+ann", parent=1), node(1, parent=2), node(2, parent=1)]
    assert {words_of(item) for item in results(EFFECTIVE, cycle)} == {"acl-chain-cycle"}
    assert words_of(results(EFFECTIVE, [node(0, "+ann", parent=1)])[0]) == "acl-chain-broken"
    long = [
        Record(
            url=f"http://e.example.com/{at}",
            action=Action.ADD,
            acl=Acl(
                inheritance=Inheritance.CHILD_OVERRIDES,
                inherit_from=f"http://e.example.com/{at + 1}" if at < 101 else None,
            ),
        )
        for at in range(102)
    ]
    codes = [item.code for item in results(EFFECTIVE, long) if isinstance(item, Reject)]
    assert codes == ["acl-chain-too-long"]


def test_the_last_acl_of_a_parent_counts_until_it_is_deleted() -> None:
    child, alone = node(0, "", None, 1), node(1, "+cid")
    assert alone.acl is not None
    alone = replace(alone, acl=replace(alone.acl, alone=True))
    gone = Record(url=URLS[1], action=Action.DELETE)
    matching = Record(url="http://www.example.com/?", action=Action.DELETE_PATTERN)
    public = Record(url=URLS[1], action=Action.ADD)
    for parents, expected in [
        ([node(1, "+ann"), node(1, "+bob")], "+bob"),
        ([node(1, "+ann"), gone], "acl-chain-broken"),
        ([node(1, "+ann"), matching], "acl-chain-broken"),
        ([node(1, "+ann"), public], "acl-chain-broken"),
        ([alone, public], "+cid"),
    ]:
        assert words_of(results(EFFECTIVE, [child, *parents])[0]) == expected


def rejected(url: str | None, code: str = "malformed") -> Reject:
    return Reject(code=code, reason="", stage="read", source="feed.xml", url=url)


@pytest.mark.parametrize("code", ["malformed", "bad-acl"])
def test_the_acl_of_a_parent_is_not_known_after_a_reject_until_it_is_stated_again(
    code: str,
) -> None:
    child, old = node(0, "", None, 1), node(1, "+ann")
    newest = rejected(URLS[1], code)
    assert words_of(results(EFFECTIVE, [child, old, newest])[0]) == "acl-chain-broken"
    assert words_of(results(EFFECTIVE, [child, old, newest, node(1, "+bob")])[0]) == "+bob"
    assert words_of(results(EFFECTIVE, [child, old, rejected(URLS[2], code)])[0]) == "+ann"


@pytest.mark.parametrize(
    "entry",
    [
        "principals: {rewrite: [['ann', 'ann']], unmapped: reject}",
        "drop: {metadata: {secret: 'yes'}}",
    ],
)
def test_the_acl_of_a_parent_is_not_known_if_an_earlier_step_sets_its_newest_version_aside(
    entry: str,
) -> None:
    newest = replace(node(1, "-bob"), metadata=(Meta("secret", "yes"),))
    entries = "\n- ".join((entry, EFFECTIVE))
    child, *_ = results(entries, [node(0, "", None, 1), node(1, "+ann"), newest])
    assert words_of(child) == "acl-chain-broken"


@pytest.mark.parametrize("is_renamed_first", [True, False])
def test_a_rejected_parent_is_found_by_the_url_that_a_step_gives_it(
    is_renamed_first: bool,
) -> None:
    moved = "urls: {rewrite: [['http://www.example.com/', 'https://new.example.com/']]}"
    names = "principals: {rewrite: [['ann', 'ann']], unmapped: reject}"
    entries = [moved, names] if is_renamed_first else [names, moved]
    stated = [node(0, "", None, 1), node(1, "+ann"), node(1, "-bob")]
    child, *_ = results("\n- ".join((*entries, EFFECTIVE)), stated)
    assert words_of(child) == "acl-chain-broken"
    child, *_ = results("\n- ".join((moved, EFFECTIVE)), [*stated[:2], rejected(URLS[1])])
    assert words_of(child) == "acl-chain-broken"


def moved_by_metadata(record: Record) -> Record:
    (path,) = [meta.value for meta in record.metadata if meta.name == "path"]
    return replace(record, url=path)


def test_a_rejected_parent_is_found_by_the_url_that_its_older_version_got() -> None:
    """The URL that a function gives to a rejected record is not known."""
    old = replace(node(1, "+ann"), metadata=(Meta("path", URLS[2]),))
    child = replace(node(0, "", None, 2), metadata=(Meta("path", URLS[0]),))
    entries = f"python: {__name__}:moved_by_metadata\n- {EFFECTIVE}"
    first, _ = results(entries, [child, old, rejected(URLS[1])])
    assert words_of(first) == "acl-chain-broken"
    assert words_of(results(entries, [child, old])[0]) == "+ann"


def test_a_part_without_a_url_stops_a_run_in_which_it_may_be_the_acl_of_a_parent() -> None:
    child, unreadable = node(0, "", None, 1), rejected(None)
    orders: list[list[ReadResult]] = [
        [child, node(1, "+ann"), unreadable],
        [node(1, "+ann"), unreadable, child],
    ]
    for stated in orders:
        with pytest.raises(StoppedError, match=r"newer ACL of .*/1'"):
            results(EFFECTIVE, stated)
    first, *_ = results(EFFECTIVE, [child, node(1, "+ann"), unreadable], accepted="malformed")
    assert words_of(first) == "+ann"
    first, *_ = results(EFFECTIVE, [child, unreadable, node(1, "+ann")])
    assert words_of(first) == "+ann"
    assert words_of(results(EFFECTIVE, [node(0, "+ann"), unreadable])[0]) == "+ann"


GROUPED = "acl: {groups: groups.xml}"


def membership(group: str, *members: str) -> Membership:
    return Membership(group=named(group), members=tuple(map(named, members)))


def test_all_memberships_of_a_group_count() -> None:
    groups = [membership("g", "ann"), membership("h", "cid"), membership("g", "h", "bob")]
    (denied,) = results(GROUPED, [node(0, "-g +other")], groups)
    assert words_of(denied) == "-ann -bob -cid +other"


def test_a_group_without_regard_to_case_has_the_members_of_all_its_spellings() -> None:
    groups = [membership("G", "ann"), membership("g", "bob")]
    deny = Principal(name="g", scope=Scope.GROUP, access=DENY)
    for is_sensitive, expected in [(None, "-bob"), (True, "-bob"), (False, "-ann -bob")]:
        acl = Acl(principals=(replace(deny, case_sensitive=is_sensitive),))
        record = Record(url=URLS[0], action=Action.ADD, acl=acl)
        assert words_of(results(GROUPED, [record], groups)[0]) == expected


@pytest.mark.parametrize("words", ["+g", "-g +ann", "+h"])
def test_a_document_of_a_group_with_a_rejected_membership_is_rejected(words: str) -> None:
    groups: list[ReadResult] = [membership("g", "ann"), membership("h", "g")]
    groups.append(rejected("g", "bad-membership"))
    stated = [node(0, words), node(1, "+bob")]
    first, second = results(GROUPED, stated, groups)
    assert words_of(first) == "acl-group-unknown"
    assert words_of(second) == "+bob"


@pytest.mark.parametrize(
    "steps",
    [
        "principals: {rewrite: [['g', 'staff']]}",
        "principals: {rewrite: [['g', 'old'], ['ann', 'ann']], unmapped: reject}\n"
        "- principals: {rewrite: [['old', 'staff']]}",
    ],
)
def test_a_group_with_a_rejected_membership_is_found_by_the_name_that_a_step_gives_it(
    steps: str,
) -> None:
    groups: list[ReadResult] = [membership("g", "ann"), rejected("g", "bad-membership")]
    (first,) = results(f"{steps}\n- {GROUPED}", [node(0, "-g +ann")], groups)
    assert words_of(first) == "acl-group-unknown"


def test_a_membership_without_a_name_stops_the_run() -> None:
    groups: list[ReadResult] = [membership("g", "ann"), rejected(None)]
    with pytest.raises(StoppedError, match="a membership of any group"):
        results(GROUPED, [node(0, "-g +bob")], groups)
    (first,) = results(GROUPED, [node(0, "-g +bob")], groups, accepted="malformed")
    assert words_of(first) == "-ann +bob"


def test_a_group_loses_no_member_that_is_not_mapped() -> None:
    entries = "principals: {rewrite: [['g', 'g'], ['ann', 'ann']], unmapped: deny}\n- " + GROUPED
    record = node(0, "-g +ann")
    (first,) = results(entries, [record], [membership("g", "ann", "cid")])
    assert words_of(first) == "acl-group-unknown"


def test_what_is_prepared_is_kept_when_a_run_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "steps.yaml").write_text("transform:\n- acl: {groups: groups.xml}\n")
    steps = read_steps(tmp_path / "steps.yaml")
    steps.prepare(StatedInputs([node(1, "+bob")]), tmp_path)
    (prepared,) = tmp_path.glob("*.prepared")
    data = prepared.read_bytes()
    steps.prepare(StatedInputs([]), tmp_path)
    assert prepared.read_bytes() == data
    before = steps.fingerprint()
    (tmp_path / "groups.xml").write_text("<xmlgroups/>")
    assert steps.fingerprint() != before


def test_the_steps_before_it_change_the_parents_too() -> None:
    moved = "urls: {rewrite: [['http://www.example.com/', 'https://new.example.com/']]}"
    named_ = "principals: {rewrite: [['*', 'A-*']]}"
    entries = "\n- ".join((moved, named_, EFFECTIVE))
    child, _ = results(entries, [node(0, "+ann", None, 1), node(1, "+bob")])
    assert words_of(child) == "+A-ann +A-bob"


def test_a_full_feed_after_another_feed_of_its_datasource_is_refused(tmp_path: Path) -> None:
    (tmp_path / "steps.yaml").write_text("transform:\n- acl: effective\n")
    steps = read_steps(tmp_path / "steps.yaml")
    first, second = (
        replace(
            node(0, "+bob"), provenance=Provenance(source=name, datasource="d", feedtype="full")
        )
        for name in ("monday.xml", "tuesday.xml")
    )
    (tmp_path / "other").mkdir()
    steps.prepare(StatedInputs([first, first]), tmp_path)
    with pytest.raises(ConfigError, match=r"tuesday.xml: a full feed of 'd' after monday.xml"):
        steps.prepare(StatedInputs([first, second]), tmp_path / "other")
    incremental = StatedInputs([first, second])
    incremental.feedtype = "incremental"
    (tmp_path / "third").mkdir()
    steps.prepare(incremental, tmp_path / "third")
