"""Every task of an app asks before it starts, whenever and wherever it is registered."""

from typing import Any

from celery import Celery
from celery.app.registry import TaskRegistry

from anarchon_celery import install
from anarchon_celery.tracking_fence import _MARK


class OwnRegistry(TaskRegistry):
    """A registry of the project's own."""

    def __setitem__(self, name: str, task: Any) -> None:
        self.seen = [*getattr(self, "seen", []), name]
        super().__setitem__(name, task)


def test_a_task_that_is_registered_later_asks_also_in_a_registry_of_the_projects_own() -> None:
    registry: Any = OwnRegistry()
    app = Celery("proj", broker="memory://", set_as_current=False, tasks=registry)
    install(app)

    @app.task(name="proj.late", shared=False)
    def late() -> None: ...

    task: Any = app.tasks["proj.late"]
    assert hasattr(type(task).before_start, _MARK)
    assert "proj.late" in registry.seen
    assert app.tasks is registry
