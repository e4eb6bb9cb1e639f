"""Verify a migration at its target: every document of an input is there, with the same fields.

The target is an appliance that lists its documents, another input, such as a spool or an archive,
or the servers of the documents, which are asked for each URL.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from feedferry.pipelines.compare.diff import ComparedInputs, takes_updates, target_of
from feedferry.pipelines.compare.inputs import CompareInput
from feedferry.pipelines.compare.url_checks import url_events
from feedferry.pipelines.folders.gateway_folders import find_spool
from feedferry.pipelines.options.compare_options import URLS, VerifyOptions
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.options.push_options import CONNECTION, ApplianceOptions
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import record_error, reject_record
from feedferry.transforms.compare.comparison import ALL, Comparer, Sample
from feedferry.transforms.compare.differences import ACL, CONTENT, FieldChange
from feedferry.transforms.compare.events import Event
from feedferry.transforms.compare.history import Document, each
from feedferry.transforms.formats import ReadResult, by_name
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.wire.address import appliance_at
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.protocol import Appliance, ApplianceProtocol
from feedferry.transforms.sinks.push.wire.reader import TargetReader

_FOUND = {True: "found", False: "not found"}
_DOCUMENTS = (Action.ADD, Action.UPDATE)


def find_listing(
    options: VerifyOptions, words: Mapping[str, object], push: PushSettings | None = None
) -> Appliance | None:
    """Return the appliance whose documents are listed, None for a target that is no appliance.

    That of a push has its credentials, and `words` those of another one. Raise ConfigError for an
    appliance that cannot list its documents.
    """
    if not options.against.startswith(("http://", "https://")):
        return None
    if push is not None and push.appliance.url == options.against:
        appliance = push.appliance
    else:
        stated = {name: words[name] for name in CONNECTION if words.get(name) is not None}
        given = decode(ApplianceOptions, {"url": options.against, **stated})
        appliance = appliance_at(
            given.url,
            setting="against",
            ca_file=given.ca_file,
            proxy=given.proxy,
            auth=given.auth,
        )
    if appliance.protocol.list_documents is None:
        reason = appliance.protocol.no_list
        raise ConfigError(
            f"⟦against⟧: {appliance.url}: appliances of the kind {appliance.protocol.name} cannot"
            f" list their documents{f': {reason}' if reason else ''}; expected an"
            " appliance that can, or another input, such as the run of another target"
        )
    return appliance


@contextmanager
def verify(
    names: Sequence[str],
    words: Mapping[str, object],
    options: VerifyOptions,
    appliance: Appliance | None,
) -> Iterator[ComparedInputs]:
    """Compare a target with an input, which is as `--to` would hold it if that is given.

    The `appliance` lists its documents. The differences lead from the target to the input: an added
    document is missing at the target, and a removed document was deleted by the input and is still
    there. Documents of the target that the input does not mention are only counted.
    """
    against = options.against
    with tempfile.TemporaryDirectory(prefix="feedferry-verify-") as name:
        folder = Path(name)
        target = target_of(words) or _target_of_spool(names, appliance)
        expected = CompareInput(names, words, folder=folder, target=target)
        results: Iterable[ReadResult | Event] = expected.results()
        fields = None
        if appliance is not None or against == URLS:  # no appliance lists groups, no server has any
            results = (item for item in results if not isinstance(item, Membership))
        if appliance is not None:
            fields = appliance.protocol.listed_fields
            results = _as_listed(results, appliance.protocol)
        if against == URLS:
            results = filter(_has_url, each(results))
            fields = frozenset({CONTENT} if options.contents else ())
        comparer = Comparer(
            folder,
            ignored=options.ignore,
            only=fields,
            is_updated=takes_updates(target),
            is_one_sided=True,
        )
        comparer.sample = _sample_of(options)
        if appliance is not None:
            comparer.has_only_documents = _has_only_documents(appliance.protocol)
            comparer.is_by_datasource = comparer.has_only_documents
        with closing(comparer):
            comparer.add_after(results)
            if against == URLS:
                documents, reads = comparer.documents(), options.contents
                comparer.add_before(
                    url_events(documents, requests=options.requests, reads_contents=reads)
                )
            elif appliance is not None:
                comparer.add_before(_listed(appliance, options), is_list=True)
                comparer.found = _probed(appliance, comparer.first_documents(options.probes))
            else:
                comparer.add_before(CompareInput((against,), words, folder=folder).results())
            yield ComparedInputs(counts=comparer.compare(), comparer=comparer, after=expected)


def _target_of_spool(names: Sequence[str], appliance: Appliance | None) -> Target | None:
    """Return the target of a spool whose feeds an appliance with decisions has; None for others."""
    if appliance is None or not _has_only_documents(appliance.protocol):
        return None
    is_spool = len(names) == 1 and find_spool(names[0]) is not None
    return Target(format=appliance.protocol.default_format) if is_spool else None


def _as_listed(
    results: Iterable[ReadResult | Event], protocol: ApplianceProtocol
) -> Iterable[ReadResult | Event]:
    """Return the results of the input, documents in the form of the list of an appliance."""
    convert = protocol.as_listed
    if convert is None:
        return results

    def listed(item: ReadResult | Event) -> ReadResult | Event:
        if not isinstance(item, Record) or item.action not in _DOCUMENTS:
            return item
        try:
            return convert(item)
        except Exception as exc:
            return reject_record(item, record_error(exc), stage="read")

    return map(listed, each(results))


def _has_only_documents(protocol: ApplianceProtocol) -> bool:
    """Whether an appliance has no ACL of a URL without a document."""
    return by_name(protocol.default_format).needs_decisions


def _listed(appliance: Appliance, options: VerifyOptions) -> Iterator[Event]:
    """Yield the documents of an appliance, those of one datasource or profile if it is stated."""
    list_documents = appliance.protocol.list_documents
    if list_documents is None:
        raise AssertionError(f"{appliance.url}: an appliance without a list")
    held_in = options.held_in or appliance.profile or None
    with ApplianceClient(appliance) as client:
        for document in list_documents(TargetReader(appliance, client), held_in):
            yield Event(document.record, document.size, document.sha256)


def _probed(
    appliance: Appliance, documents: Iterable[Document]
) -> dict[tuple[str, str | None], FieldChange]:
    """Return the documents that searches find, or do not find, against their ACLs."""
    found: dict[tuple[str, str | None], FieldChange] = {}
    probe = appliance.protocol.probe
    if probe is None:
        return found
    with ApplianceClient(appliance) as client:
        reader = TargetReader(appliance, client)
        for record in (document.record for document in documents):
            failed = [] if record is None else [*probe(reader, record)]
            if record is not None and failed:
                searches = [(each.person, each.is_found) for each in failed]
                found[record.url, record.provenance.datasource] = FieldChange(
                    field=ACL,
                    before=", ".join(f"{_FOUND[is_found]} as {who}" for who, is_found in searches),
                    after=", ".join(_FOUND[not is_found] for _, is_found in searches),
                )
    return found


def _sample_of(options: VerifyOptions) -> Sample:
    size = options.sample
    if size is None:
        return ALL
    if size.percent is not None:
        return Sample.share(float(size.percent) / 100)
    return Sample(count=size.count)


def _has_url(item: ReadResult | Event) -> bool:
    """Whether an item is at a URL; an ACL alone is at none."""
    return not (isinstance(item, Record) and item.acl is not None and item.acl.alone)
