"""Count the function calls of a conversion: `python calls.py FEED TARGET` prints their number.

The feed is converted in this process, by one worker; calls of C functions count, too.
"""

import cProfile
import sys
import tempfile

from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert_on
from feedferry.transforms.conversion.file_spans import begin
from feedferry.transforms.formats import ReadOptions, WriteOptions
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources import sniff_format

_SPAN_BYTES = 32 << 20


def main(path: str, target: str) -> None:
    """Convert a feed to a target and print the number of calls."""
    whole = Span(source=path, path=path)
    whole = Span(source=path, path=path, format=sniff_format(whole))
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as folder:
        settings = Settings(
            folder=folder,
            target=Target(format=target, datasource="benchmark"),
            reading=ReadOptions(),
            writing=WriteOptions(),
            max_chunk_bytes=1 << 30,
            refused=frozenset(),
        )
        profile.enable()
        for span in begin(whole, span_bytes=_SPAN_BYTES, options=ReadOptions()):
            for _ in convert_on(span, settings):
                pass
        profile.disable()
    print(sum(entry.callcount for entry in profile.getstats()))


if __name__ == "__main__":
    main(*sys.argv[1:])
