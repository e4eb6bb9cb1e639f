"""What was mended, as a line."""

from schemas.notice import Notice


def test_a_notice_says_where_it_is_and_what_was_made_of_it() -> None:
    notice = Notice(code="date", detail="a date; read as one", source="ids.txt", offset=12)

    assert notice.message == "ids.txt (byte 12): a date; read as one"
