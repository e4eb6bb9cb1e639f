"""Cut runs of elements into the elements, and the contents out of these."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from feedferry.transforms.formats.text.byte_scans import find, rfind
from feedferry.transforms.formats.xml.bulk.contents import CutContent, cut_contents
from feedferry.transforms.formats.xml.scanning.record_markup import RecordMarkup

_SAMPLE, _MARKUPS = 64, 2
"""How many elements show whether only those that close themselves have another markup."""


_BLANKS = " \t\r\n"
_SLASH = ord("/")
_CLOSED_TAG = rb"""\s*<%b(?=[\s/])[^<>"']*(?:(?:"[^"<>]*"|'[^'<>]*')[^<>"']*)*/>"""
"""An element that closes itself, and the blanks before it."""


class CutElement(NamedTuple):
    """An element without its end tag and its contents; it begins at `begin` or after blanks.

    The tag of an element that closes itself is in the form of a start tag.
    """

    head: str
    end: int
    contents: Sequence[bytes] = ()
    are_cdata: tuple[bool, ...] = ()
    begin: int = 0


class AlikeElements(NamedTuple):
    """Elements of a run that end in one way, and their places in it."""

    text: str
    places: Sequence[int]


class RunCutter:
    """Cuts the runs of a format, by the markup of its records and the names of their contents."""

    def __init__(self, markup: RecordMarkup, content_names: Sequence[str]) -> None:
        self._markup = markup
        self._begin, self._end = f"<{markup.main}", f"</{markup.main}>"
        self._closed = re.compile(_CLOSED_TAG % markup.main.encode())
        self._content_tags = [f"<{name}".encode() for name in content_names]
        self._content = re.compile(f"<({'|'.join(content_names)})".encode())

    def last_end(self, run: bytes) -> int:
        """Return where the last element with an end tag ends, 0 without one."""
        tag = self._markup.end_tag
        last = rfind(run, tag)
        return last + len(tag) if last >= 0 else 0

    def is_one_element(self, markup: str) -> bool:
        """Whether no section or tag in the markup of an element may end a record."""
        text = markup.lstrip().removesuffix(self._end).encode()
        return self._markup.in_record[self._markup.main].search(text, 1) is None

    def cut_contents(self, run: bytes) -> tuple[bytes, list[CutContent]]:
        """Return a run without contents, up to one whose end is not certain, and the contents."""
        if any(find(run, tag) >= 0 for tag in self._content_tags):
            return cut_contents(run, self._content, self._markup)
        return run, []

    def cut(self, text: bytes, contents: Sequence[CutContent]) -> Iterator[CutElement]:
        """Cut a run, whose contents were cut out, into elements."""
        at, cut, number, tag = 0, 0, 0, self._markup.end_tag
        for head in text.split(tag):
            end = at + len(head)
            while closed := self._match_closed(text, at):
                yield CutElement(f"{closed[0][:-2].decode()}>", cut + closed.end(), begin=cut + at)
                at = closed.end()
            if end == len(text):
                return
            begin, markup, own = cut + at, text[at:end].decode(), contents[:0]
            at = end + len(tag)
            if contents:
                last = number + len(self._content.findall(head))
                own, number = contents[number:last], last
                cut += sum(content.length for content in own)
            data, are_cdata = [of.data for of in own], tuple([of.is_cdata for of in own])
            yield CutElement(markup, cut + at, data, are_cdata, begin)

    def _match_closed(self, run: bytes, at: int) -> re.Match[bytes] | None:
        """Match an element that closes itself."""
        return self._closed.match(run, at) if run[run.find(b">", at) - 1] == _SLASH else None

    def opened_and_closed(self, text: str) -> Sequence[AlikeElements] | None:
        """Return the elements with an end tag, and those that close themselves, with one.

        Return None if a few elements do not show that others have the same markup.
        """
        counts = {each.count('"') for each in text.split(self._begin, _SAMPLE)[1:-1]}
        if len(counts) != _MARKUPS:
            return None
        before, *heads = [each.rstrip(_BLANKS) for each in text.split(self._begin)]
        opened = [at for at, head in enumerate(heads) if head.endswith(self._end)]
        closed = [at for at, head in enumerate(heads) if head.find("/>") == len(head) - 2]
        if before or len(opened) + len(closed) < len(heads):
            return None
        for at in closed:
            heads[at] = f"{heads[at][:-2]}>{self._end}"
        return [
            AlikeElements(self._begin.join(["", *[heads[at] for at in of]]), of)
            for of in (opened, closed)
        ]

    def uniform_ranges(self, run: bytes) -> list[tuple[int, int]]:
        """Return the begins and the ends of elements that have one markup."""
        begins = [begin.start() for begin in self._markup.main_record.finditer(run)]
        return [
            (begin, begin + len(run[begin:after].rstrip()))
            for begin, after in pairwise([*begins, len(run)])
        ]

    def ranges(self, run: bytes, elements: Sequence[CutElement]) -> list[tuple[int, int]]:
        """Return the begins and the ends of elements of a run."""
        begin = self._begin.encode()
        return [(run.find(begin, of.begin), of.end) for of in elements]
