"""The state of a document that is scanned: the root, the header and the group it is in."""

import msgspec

from feedferry.schemas.span import ElementContext, Span

UNKNOWN = b"<"
"""The header or group of a context that damage has made unknown."""

NESTED = b"<group"
"""The `group` of a context between the end tags of an inner and an outer group."""

_PROLOG_BYTES = 64 << 10
"""Most bytes that `prolog` keeps."""


class DocumentState:
    """The context of the next record, and the documents of the stream up to it."""

    def __init__(self, span: Span) -> None:
        position = span.position
        self.context = position if isinstance(position, ElementContext) else ElementContext()
        self.has_root = position is not None
        self.documents = 0
        self.ended: dict[bytes, ElementContext] = {}
        """The documents that have ended, by the bytes of their header."""

        self.prolog = b""
        """Byte order mark, XML declaration and DOCTYPE of the current document."""

    def enter(self, kind: str, tag: bytes) -> None:
        """Enter the root or a group."""
        self.has_root = True
        if kind == "root":
            self.end()
            self.context = ElementContext(root=tag)
        else:
            depth = 1 + bool(self.context.depth)
            self.context = msgspec.structs.replace(self.context, group=tag, depth=depth)

    def leave(self, kind: str) -> None:
        """Leave a group, or the document: connectors append feeds to one archive."""
        if kind == "end":
            self.end()
            self.context = ElementContext(header=UNKNOWN)
            self.prolog = b""
        else:
            depth = max(0, self.context.depth - 1)
            group = NESTED if depth else b""
            self.context = msgspec.structs.replace(self.context, group=group, depth=depth)

    def enter_header(self, header: bytes) -> None:
        self.context = ElementContext(root=self.context.root, header=header)

    def end(self) -> None:
        """Note the end of the current document, if there is one."""
        self.note_ended(self.context)

    def note_ended(self, context: ElementContext) -> None:
        if context.root:
            self.ended.setdefault(context.header, context)

    def note_prolog(self, text: bytes) -> None:
        """Keep a piece of the prolog, before the root."""
        if not self.context.root and len(self.prolog) + len(text) < _PROLOG_BYTES:
            self.prolog += text + b"\n"
