"""The Celery project of these tests: the worker's, and the one whose tasks are published."""

import json
import socket
from pathlib import Path
from typing import Any

from celery import Celery


def make_app(broker: str, *, folder: Path | None = None, report_to: int = 0) -> Celery:
    """Return an app whose tasks tell a UDP port of this machine what they were called with."""
    app = Celery("proj", broker=broker, set_as_current=False)
    app.conf.result_expires = None
    app.conf.task_routes = {"proj.placed": {"queue": "aside"}}
    if folder is not None:
        app.conf.broker_transport_options = {
            "data_folder_in": str(folder / "messages"),
            "data_folder_out": str(folder / "messages"),
            "processed_folder": str(folder / "processed"),
            "control_folder": str(folder / "control"),
        }

    @app.task(name="proj.note", bind=True, shared=False)
    def note(self: Any, /, *args: object, **kwargs: object) -> None:
        _report(self.request, report_to)

    @app.task(name="proj.placed", bind=True, shared=False, expires=3600)
    def placed(self: Any, /, *args: object, **kwargs: object) -> None:
        _report(self.request, report_to)

    return app


def _report(request: Any, port: int) -> None:
    if not port:
        return
    told = {
        "task": request.task,
        "id": request.id,
        "args": request.args,
        "kwargs": request.kwargs,
        "headers": request.headers,
        "anarchon": request.get("anarchon"),
        "queue": request.delivery_info["routing_key"],
        "priority": request.delivery_info["priority"],
        "expires": request.expires,
        "eta": request.eta,
    }
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(json.dumps(told, default=str).encode(), ("127.0.0.1", port))
