"""Documents with ACLs of all kinds, users, and who finds what by the words of the guide."""

from feedferry.schemas.acl import Scope
from feedferry.schemas.membership import Member

HOST = "http://docs.example.com/"
GROUPS = {
    "alice": [],
    "bob": ["staff"],
    "bob without staff": [],
    "carol": ["staff"],
    "dave": ["staff"],
    "erin": [],
    "frank": ["staff"],
    "grace": ["staff", "board"],
    "Alex": [],
    "unknown": None,
}
"""The groups of users; an unknown user has no name either."""

FOLDERS = {
    "child": ("child-overrides", None, "permit group staff, deny user dave"),
    "parent": ("parent-overrides", None, "permit user alice, deny user dave"),
    "both": ("and-both-permit", None, "permit user alice, permit user bob"),
    "share": ("and-both-permit", None, "permit group staff"),
    "leaf": ("leaf-node", None, "permit user alice"),
    "deep": ("child-overrides", "child", "permit user erin"),
}
"""The inheritance type of a folder, its parent, and its principals."""

CASES = {
    "of-child": ("child", "permit user dave, deny user bob", {"carol", "dave", "frank", "grace"}),
    "of-parent": (
        "parent",
        "permit user dave, permit user bob, deny user alice",
        {"alice", "bob", "bob without staff"},
    ),
    "of-both": ("both", "permit user bob, permit user erin", {"bob", "bob without staff"}),
    "of-share": ("share", "permit group board", {"grace"}),
    "of-leaf": ("leaf", "permit user bob", set()),
    "of-deep": ("deep", "deny user frank", {"bob", "carol", "erin", "grace"}),
    "of-nothing": ("nothing", "permit user bob", set()),
    "any-case": (None, "permit user ALEX any", {"Alex"}),
    "empty": (None, "", set()),
}
"""The parent and the principals of a document, and who finds it."""


def principals(text: str) -> str:
    """Return the elements of principals such as `permit user bob`."""
    found = []
    for words in filter(None, text.split(", ")):
        access, scope, name, *any_case = words.split()
        case = ' case-sensitivity-type="everything-case-insensitive"' if any_case else ""
        found.append(f'<principal scope="{scope}" access="{access}"{case}>{name}</principal>')
    return "".join(found)


def acl(rule: str, parent: str | None, text: str, *, words: str = "") -> str:
    if parent:
        words += f' inherit-from="{HOST}{parent}"'
    return f'<acl inheritance-type="{rule}"{words}>{principals(text)}</acl>'


def record(name: str, content: str, words: str = "") -> str:
    return f'<record url="{HOST}{name}" mimetype="text/plain"{words}>{content}</record>\n'


def feed() -> str:
    folders = "".join(
        acl(*folder, words=f' url="{HOST}{name}"') for name, folder in FOLDERS.items()
    )
    text = "<content>text</content>"
    documents = [record(name, acl("leaf-node", *case[:2]) + text) for name, case in CASES.items()]
    documents.append(record("public", text))
    documents.append(record("secure", text, ' authmethod="httpbasic"'))
    return (
        "<gsafeed><header><datasource>cases</datasource><feedtype>incremental</feedtype></header>"
        f"<group>{folders}{''.join(documents)}</group></gsafeed>"
    )


def expected() -> dict[str, set[str]]:
    """Return the users that find each document."""
    found = {name: users for name, (_, _, users) in CASES.items()}
    return found | {"public": {*GROUPS}, "secure": set()}


def members(user: str) -> list[Member]:
    groups = GROUPS[user]
    if groups is None:
        return []
    name = user.partition(" ")[0]
    return [
        Member(name=name, scope=Scope.USER),
        *(Member(name=group, scope=Scope.GROUP) for group in groups),
    ]
