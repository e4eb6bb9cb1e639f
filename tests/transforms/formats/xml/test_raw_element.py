"""The url that is found in what was to be a record."""

import pytest

from transforms.formats.xml.raw_element import find_url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (b'<record url="http://e.com/">', "http://e.com/"),
        (b"<record lock='true'\n url = 'http://e.com/'>", "http://e.com/"),
        (b'<record url="http://e.com/?a=1&amp;b=2">', "http://e.com/?a=1&amp;b=2"),
        (b'<record url="http://e.com/it\'s">', "http://e.com/it"),
        (b'<record url="http://e.com/ <content>', "http://e.com/ "),
        (b"<Item><Url>http://e.com/</Url>", "http://e.com/"),
        (b'<record url="\xff">', "\ufffd"),
        (b'<record displayurl="a" url="b">', "b"),
        (b'<record displayurl="a">', None),
        (b'<record url="">', None),
        (b"", None),
    ],
)
def test_the_first_url_is_taken_as_it_is_written(text: bytes, url: str | None) -> None:
    assert find_url(text) == url
