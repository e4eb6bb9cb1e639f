"""What was set aside: where it was, in a line, and how much of it is kept."""

from schemas.errors import RecordError
from schemas.reject import Place, Reject, reject_bytes
from schemas.span import Span

SPAN = Span(source="feed.xml", ordinal=2)
TORN = RecordError("torn", "a torn record; expected its end")


def test_a_reject_says_where_it_is_by_line_and_byte() -> None:
    reject = Reject(code="a", reason="found; expected", stage="read", source="f.xml", line=3)

    assert reject.message == "f.xml:3 (byte 0): found; expected"


def test_a_reject_of_a_format_without_lines_says_where_it_is_by_byte() -> None:
    reject = Reject(code="a", reason="found; expected", stage="read", source="ids", offset=9)

    assert reject.message == "ids (byte 9): found; expected"


def test_a_stretch_that_was_not_understood_is_kept_with_its_place() -> None:
    place = Place(offset=10, length=4, line=7)

    assert reject_bytes(TORN, span=SPAN, place=place, data=b"<rec", url="u") == Reject(
        code="torn",
        reason="a torn record; expected its end",
        stage="read",
        source="feed.xml",
        span=2,
        line=7,
        offset=10,
        length=4,
        url="u",
        data=b"<rec",
    )


def test_a_stretch_of_which_only_the_beginning_is_kept_says_so() -> None:
    assert reject_bytes(TORN, span=SPAN, place=Place(0, 5), data=b"<rec").truncated
