"""The text of an explanation has the place of each ACL as the reader of the feed states it."""

import pytest

from feedferry.pipelines.access.explanation import AccessExplanation, AclLink
from feedferry.pipelines.access.explanation_text import text_lines


@pytest.mark.parametrize(
    ("line", "offset", "place"),
    [
        (6, 0, "run 1: feed.xml:6"),
        (0, 945, "run 1: feed.xml (byte 945)"),
        (0, 0, "run 1: feed.xml"),
    ],
)
def test_an_acl_has_the_place_that_is_known(line: int, offset: int, place: str) -> None:
    link = AclLink(url="http://x/", run="run 1", source="feed.xml", line=line, offset=offset)
    explanation = AccessExplanation(url="http://x/", acls=(link,))
    assert [*text_lines(explanation)][-1] == f"    from      {place}"
