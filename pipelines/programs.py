"""Sources that are programs: their files loaded, their listers run, their listings cut.

The lister runs before the pipeline, once; what it says stands in the folder of the run until that
is done, so that a run that is started again goes on with the same listing.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from pipelines.options import ConvertOptions
from schemas.span import Span
from transforms.convert import Settings
from transforms.sources import command
from transforms.sources.files import cut_file
from transforms.sources.programs import Programs, load

COMMAND = "command"
"""The format of a source whose file names programs."""

LISTED_BYTES = 64 << 10
"""About how much of a listing is a span: a thousand documents, which a resumed run need not ask for
again.
"""


def load_programs(spans: Iterable[Span], options: ConvertOptions) -> dict[str, Programs]:
    """Return the programs of each source that is one; raise ConfigError for what cannot be used."""
    return {span.source: _load(span, options) for span in spans if span.format == COMMAND}


def list_documents(span: Span, settings: Settings) -> Iterator[Span]:
    """Yield the spans of the listing of a source that is programs, or any other as it is.

    Raises SourceError where the lister does not end well.
    """
    if span.format != COMMAND:
        yield span
        return
    path = Path(settings.folder) / f"{span.name}.listing"
    if not path.exists():
        command.list_documents(settings.programs[span.source], path, options=settings.reading)
    listing = replace(span, path=str(path), format="lister-stream")
    yield from cut_file(listing, span_bytes=LISTED_BYTES)


def _load(span: Span, options: ConvertOptions) -> Programs:
    programs = load(Path(span.path))
    return replace(
        programs,
        batch=options.batch or programs.batch,
        parallel=programs.parallel or options.jobs,
    )
