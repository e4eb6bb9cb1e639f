"""The process that reads the text of documents that are no text: PDF and Office.

A library that reads such files may crash, loop or take all memory because of one of them. It runs
in this process, whose memory is limited; the step ends it after a time limit.

A request on standard input is a MIME type and a document, a reply on standard output a status byte
and a text, each with its length before it. A status of `_TEXT` comes with the text, `_FAILED` with
the reason.
"""

import resource
import struct
import sys
from collections.abc import Callable
from importlib import import_module
from typing import IO

LENGTH = struct.Struct(">I")
TEXT, FAILED = b"t", b"f"
PDF = "application/pdf"
OFFICE = (
    "application/msword",
    "application/rtf",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.oasis.opendocument.",
    "application/vnd.openxmlformats-officedocument.",
)
"""The beginnings of the MIME types of Office documents."""

LIBRARIES = {"pypdfium2": "pdf", "kreuzberg": "office"}
"""The libraries, and the extra of feedferry that installs each."""


def library_of(mimetype: str) -> str | None:
    """Return the name of the library that reads a type of documents, None if none does.

    >>> library_of("application/pdf"), library_of("image/png")
    ('pypdfium2', None)
    """
    if mimetype == PDF:
        return "pypdfium2"
    return "kreuzberg" if mimetype.startswith(OFFICE) else None


def read_block(stream: IO[bytes]) -> bytes:
    """Return the next block; raise EOFError at the end."""
    header = stream.read(LENGTH.size)
    if len(header) < LENGTH.size:
        raise EOFError
    (size,) = LENGTH.unpack(header)
    return stream.read(size)


def _text_of_pdf(data: bytes) -> str:
    pdfium = import_module("pypdfium2")
    document = pdfium.PdfDocument(data)
    try:
        pages = []
        for page in document:
            text = page.get_textpage()
            pages.append(text.get_text_bounded())
            text.close()
            page.close()
        return "\n".join(pages)
    finally:
        document.close()


def _text_of_office(mimetype: str) -> Callable[[bytes], str]:
    kreuzberg = import_module("kreuzberg")
    return lambda data: str(kreuzberg.extract_bytes_sync(data, mimetype).content)


def main(max_bytes: int) -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            mimetype = read_block(requests).decode()
            data = read_block(requests)
        except EOFError:
            return
        try:
            read = (
                _text_of_pdf if library_of(mimetype) == "pypdfium2" else _text_of_office(mimetype)
            )
            status, reply = TEXT, read(data).encode("utf-8", "replace")
        except Exception as exc:  # whatever a library raises for a document is about that document
            status, reply = FAILED, f"{type(exc).__name__}: {exc}"[:500].encode("utf-8", "replace")
        replies.write(status + LENGTH.pack(len(reply)) + reply)
        replies.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
