"""A verdict names the layer of each part that decides about a user."""

from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.acl import Access
from feedferry.transforms.access.index_fields import field_names, permits, public_fields
from feedferry.transforms.access.verdicts import (
    PartVerdict,
    TokenLayer,
    layers_of_fields,
    token_text,
    verdicts,
)

TOKENS = st.sets(st.sampled_from(["*", "us:Default:ann", "gs:Default:hr", "gs:Default:staff"]))
FIELDS = st.dictionaries(st.sampled_from(field_names()), TOKENS.map(sorted))


@given(FIELDS, TOKENS)
def test_a_search_finds_what_all_parts_permit(
    fields: dict[str, list[str]], tokens: set[str]
) -> None:
    decided = [verdict.access is Access.PERMIT for verdict in verdicts(fields, tokens)]
    assert all(decided) is permits(fields, tokens)


def test_the_first_layer_that_names_the_user_decides_and_a_denial_counts_first() -> None:
    fields = public_fields() | {
        "acl_1_permit_1": ["gs:Default:hr"],
        "acl_1_deny_2": ["us:Default:ann", "gs:Default:guests"],
        "acl_1_permit_2": ["us:Default:ann"],
        "acl_2_permit_1": ["us:Default:bob"],
    }
    named = ["us:Default:ann"]
    assert [*verdicts(fields, ["*", *named])] == [
        PartVerdict(part=1, layer=2, access=Access.DENY, tokens=named),
        PartVerdict(part=2),
        PartVerdict(part=3, layer=1, access=Access.PERMIT, tokens=["*"]),
    ]
    assert layers_of_fields(fields) == [
        TokenLayer(part=1, layer=1, permits=["gs:Default:hr"]),
        TokenLayer(part=1, layer=2, denies=["us:Default:ann", "gs:Default:guests"], permits=named),
        TokenLayer(part=2, layer=1, permits=["us:Default:bob"]),
    ]


def test_a_hidden_document_has_a_part_that_permits_no_user_and_a_public_one_has_no_layers() -> None:
    assert layers_of_fields({}) == [TokenLayer(part=1, layer=1)]
    assert layers_of_fields(public_fields()) == []


def test_tokens_are_shown_in_words() -> None:
    tokens = "us:Default:ann", "gi:corp:a%5Cb", "*"
    assert [*map(token_text, tokens)] == [
        "user ann",
        "group a\\b of namespace corp, in any case",
        "everyone",
    ]
