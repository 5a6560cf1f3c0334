"""The scheduler and its parts; it may never import a driver, nor know who publishes for it."""

from anarchon.scheduler.background import BackgroundScheduler
from anarchon.scheduler.decorators import at, cron, every
from anarchon.scheduler.scheduler import Scheduler

__all__ = ["BackgroundScheduler", "Scheduler", "at", "cron", "every"]
