"""What `celery -A tests.celery.worker worker` runs."""

import os
from pathlib import Path

from tests.celery.project import make_app

_folder = os.environ.get("PROJECT_FOLDER")

app = make_app(
    os.environ["PROJECT_BROKER"],
    folder=Path(_folder) if _folder else None,
    report_to=int(os.environ["PROJECT_REPORT_TO"]),
)
