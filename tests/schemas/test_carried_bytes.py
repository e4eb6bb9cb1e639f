"""What a reject keeps of a record."""

import json

from schemas import avro, avro_membership
from schemas.acl import Scope
from schemas.carried_bytes import carried_bytes
from schemas.membership import Member, Membership
from schemas.record import Action, Record

RECORD = Record(url="http://a.example.com/", action=Action.ADD, title="plan")
GROUP = Membership(group=Member(name="staff", scope=Scope.GROUP), members=())


def test_a_record_is_kept_as_avro() -> None:
    assert avro.decode(carried_bytes(RECORD)) == RECORD


def test_a_membership_is_kept_as_avro() -> None:
    assert avro_membership.decode(carried_bytes(GROUP)) == GROUP


def test_a_record_with_a_lone_surrogate_is_kept_as_json() -> None:
    kept = json.loads(carried_bytes(Record(url="http://a/\ud800", action=Action.ADD)))
    assert (kept["url"], kept["action"]) == ("http://a/\ud800", "ADD")


def test_a_record_with_a_number_beyond_avro_is_kept_as_json() -> None:
    kept = json.loads(carried_bytes(Record(url="http://a/", action=Action.ADD, size=1 << 80)))
    assert kept["size"] == 1 << 80
