"""Read runs of records of a feed without a parser: as batches, or as blocks of elements."""

from collections.abc import Sequence

from feedferry.schemas.span import ElementContext
from feedferry.transforms.formats.gsa.fast_reader import (
    END,
    END_PRINCIPAL,
    NO_NAME,
    RecordTemplate,
    common_markup,
)
from feedferry.transforms.formats.gsa.feed_blocks import FeedBlocks
from feedferry.transforms.formats.gsa.gsa_formats import FEED_NAMES
from feedferry.transforms.formats.holding.acl_metadata import BLANKS
from feedferry.transforms.formats.xml.bulk.element_runs import ElementRuns, Place
from feedferry.transforms.formats.xml.scanning.raw_elements import Run

_ACL = "<acl"


class FeedRuns(ElementRuns[RecordTemplate]):
    """Makes batches of runs of records."""

    names = FEED_NAMES
    content_names = ("content",)

    _context_of_blocks: ElementContext | None = None
    _feed_blocks: FeedBlocks

    def split(self, head: str) -> tuple[str, Sequence[str]]:
        names: list[str] = []
        if END_PRINCIPAL in head:
            *entries, rest = head.split(END_PRINCIPAL)
            pairs = [entry.rpartition(">") for entry in entries]
            names = [name for *_, name in pairs]
            if '"' in "".join(names):
                return "", ()
            head = "".join([f"{tag}>{END_PRINCIPAL}" for tag, *_ in pairs]) + rest
        pieces = head.split('"')
        if not len(pieces) % 2:
            return "", ()  # a quote that ends no value
        return '"'.join(pieces[::2]) + END, [*pieces[1::2], *names]

    def split_run(self, text: str) -> tuple[str, list[Sequence[str]]] | None:
        count, width = text.count(END), text.count('"', 0, text.find(END))
        if not width or width % 2 or text.count('"') != width * count:
            return None
        pieces = text.split('"')
        markup = common_markup(pieces, width, count)
        if markup is None or NO_NAME in markup:
            return None
        values = pieces[1::2]
        return markup, [values[at :: width // 2] for at in range(width // 2)]

    def learn(self, markup: str) -> RecordTemplate | None:
        if self._options.acls_in_blocks and _ACL in markup:
            return None
        template = RecordTemplate(markup.lstrip(BLANKS))
        return template if template.is_known else None

    def block(self, run: bytes, place: Place) -> Run | None:
        if not self._options.batch_records:
            return None
        if place[2] is not self._context_of_blocks:
            self._context_of_blocks = place[2]
            self._feed_blocks = FeedBlocks(self._options, self.new_shape)
        found = self._feed_blocks.block(run, place)
        if found is None:
            return None
        block, length = found
        return Run([block], len(block.ends), length)
