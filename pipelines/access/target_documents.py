"""The state of a target now: the decisions about a document, and the groups of a user."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from feedferry.pipelines.access.explain_document import UserSearch, decided, fields_of_record
from feedferry.pipelines.access.explanation import AccessExplanation
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.options.push_options import CONNECTION, ApplianceOptions
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.membership import Member
from feedferry.transforms.sinks.push.wire.address import appliance_at
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sinks.push.wire.reader import TargetReader


def target_decisions(
    url: str,
    words: Mapping[str, object],
    explanation: AccessExplanation,
    search: UserSearch | None,
) -> AccessExplanation:
    """Return an explanation with the decisions of the document at a target.

    Raise ConfigError for a target that does not hold decisions.
    """
    appliance = _appliance(url, words, setting="target")
    find_versions = appliance.protocol.find_versions
    if find_versions is None:
        raise ConfigError(
            f"--target: {appliance.url}: appliances of the kind {appliance.protocol.name} resolve"
            " ACLs themselves; expected an index of OpenSearch, Elasticsearch or Solr"
        )
    with ApplianceClient(appliance) as client:
        records = [*find_versions(TargetReader(appliance, client), explanation.url)]
    decisions = [*explanation.decisions]
    for record in records:
        datasource = record.provenance.datasource
        if explanation.datasource in (None, datasource):
            made = decided("target", fields_of_record(record), explanation.acls, search)
            decisions.append(replace(made, datasource=datasource))
    notes = [*explanation.notes]
    if len(decisions) == len(explanation.decisions):
        notes.append("the target does not have the document")
    return replace(explanation, decisions=decisions, notes=notes)


def target_groups(
    url: str, words: Mapping[str, object], members: Sequence[Member]
) -> Sequence[Member]:
    """Return the groups that an index of groups has for users and groups.

    Raise ConfigError for a target that has none.
    """
    appliance = _appliance(url, words, setting="groups_index")
    find_groups = appliance.protocol.find_groups
    if find_groups is None:
        raise ConfigError(
            f"--groups-index: {appliance.url}: an appliance of the kind {appliance.protocol.name};"
            " expected an index of OpenSearch or Elasticsearch"
        )
    with ApplianceClient(appliance) as client:
        return find_groups(TargetReader(appliance, client), members)


def _appliance(url: str, words: Mapping[str, object], *, setting: str) -> Appliance:
    stated = {name: words[name] for name in CONNECTION if words.get(name) is not None}
    given = decode(ApplianceOptions, {"url": url, **stated})
    return appliance_at(
        given.url, setting=setting, ca_file=given.ca_file, proxy=given.proxy, auth=given.auth
    )
