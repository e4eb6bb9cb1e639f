"""Cut the contents out of elements: they may be large, and are copied as they are."""

import re

from msgspec import Struct

from feedferry.transforms.formats.text.byte_scans import find
from feedferry.transforms.formats.xml.scanning.ambiguous_sections import find_certain_end
from feedferry.transforms.formats.xml.scanning.record_markup import RecordMarkup
from feedferry.transforms.formats.xml.scanning.sections import CDATA


class CutContent(Struct, frozen=True, gc=False):
    """The text of an element, or of its one CDATA section, and how many bytes were cut out."""

    data: bytes
    is_cdata: bool
    length: int


def cut_contents(
    run: bytes, opened: re.Pattern[bytes], markup: RecordMarkup
) -> tuple[bytes, list[CutContent]]:
    """Return a run without contents, up to one whose end is not certain, and the contents.

    `opened` finds their tags, and has the name in a group.
    """
    heads, contents, at = list[bytes](), list[CutContent](), 0
    while match := opened.search(run, at):
        first = run.find(b">", match.end()) + 1
        is_cdata = run.startswith(CDATA.opener, first)
        begin = first + len(CDATA.opener) * is_cdata
        close = find_certain_end(run, begin, markup) if is_cdata else find(run, b"<", begin)
        after = close + len(CDATA.closer) * is_cdata
        is_certain = (
            first > 0 <= close
            and run.find(b"<", match.end(), first) < 0
            and run.startswith(b"</" + match[1], after)
        )
        if not is_certain:
            return b"".join((*heads, run[at : match.start()])), contents
        heads.append(run[at:first])
        contents.append(CutContent(run[begin:close], is_cdata, after - first))
        at = after
    return b"".join((*heads, run[at:])), contents
