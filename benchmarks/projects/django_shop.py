"""The same project with its entries in the tables of django-celery-beat."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.projects.django_settings"

import django

from benchmarks.projects.shop import app as app
from benchmarks.projects.spec import SPEC, moment_of


def fill() -> None:
    """Make the tables and put in one row an entry; that takes its time."""
    from django.core.management import call_command
    from django.db import connection
    from django_celery_beat.models import CrontabSchedule, PeriodicTask

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        # row by row, each would be told to the beats
        cursor.execute("truncate django_celery_beat_crontabschedule cascade")
    crontab = CrontabSchedule.objects.create(timezone="UTC")
    rows = [
        PeriodicTask(name=f"job-{n:06}", task="shop.note", args=json.dumps([n]), crontab=crontab)
        for n in range(SPEC["jobs"])
    ]
    PeriodicTask.objects.bulk_create(rows, batch_size=1000)


def set_minute() -> None:
    """Say in which minute of the hour all of them are due."""
    from django_celery_beat.models import CrontabSchedule, PeriodicTasks

    minute = str(datetime.fromtimestamp(moment_of(0), UTC).minute)
    CrontabSchedule.objects.update(minute=minute)
    PeriodicTasks.update_changed()


if __name__ == "__main__":
    django.setup()
    {"fill": fill, "set-minute": set_minute}[sys.argv[1]]()
