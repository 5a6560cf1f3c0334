"""Schedulers under a test's command, and a judge of what they did.

Time that moves when told, instances that freeze and die; what was done to them and what ran
is evidence, and a checker says from the outside whether the guarantees held. It may be used
without any test framework, and never imports one.
"""

from anarchon.testing.checker import check
from anarchon.testing.evidence import Body, Evidence, Fault, Life, Trouble
from anarchon.testing.faults import FaultyBackend, FaultyClaimBackend
from anarchon.testing.fleet import ClaimFleet, Fleet, Member
from anarchon.testing.manual_clock import InstanceClock, ManualClock
from anarchon.testing.verdict import Finding, Kind, Verdict

__all__ = [
    "Body",
    "ClaimFleet",
    "Evidence",
    "Fault",
    "FaultyBackend",
    "FaultyClaimBackend",
    "Finding",
    "Fleet",
    "InstanceClock",
    "Kind",
    "Life",
    "ManualClock",
    "Member",
    "Trouble",
    "Verdict",
    "check",
]
