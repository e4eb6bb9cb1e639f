"""The URIs that text and messages have in place of the paths of copies on this machine."""

from pathlib import Path


class MirrorNames:
    """The URIs of what has a copy on this machine, by the path of the copy."""

    def __init__(self) -> None:
        self._uris: dict[str, str] = {}

    def add(self, copy: Path, uri: str) -> None:
        self._uris[str(copy)] = uri

    def in_text(self, text: str) -> str:
        """Return a text with URIs in place of the paths of copies."""
        for copy, uri in self._uris.items():
            text = text.replace(copy, uri)
        return text

    def in_bytes(self, data: bytes) -> bytes:
        """Return a line of a file, in any encoding, with URIs in place of the paths of copies."""
        for copy, uri in self._uris.items():
            data = data.replace(copy.encode(), uri.encode())
        return data
