"""Schedulers under a test's command: time that moves when told, instances that freeze and die.

It may be used without any test framework, and never imports one.
"""

from anarchon.testing.faults import FaultyBackend
from anarchon.testing.fleet import Fleet, Member
from anarchon.testing.manual_clock import InstanceClock, ManualClock

__all__ = ["FaultyBackend", "Fleet", "InstanceClock", "ManualClock", "Member"]
