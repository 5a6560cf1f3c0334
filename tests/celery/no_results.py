"""A result backend that is away."""

from typing import Any, NoReturn

from celery.backends.base import BaseBackend


class Away(BaseBackend):
    """One that raises whatever it is asked for."""

    def _store_result(self, *_: Any, **__: Any) -> NoReturn:
        raise ConnectionError("the result backend is away")

    def _get_task_meta_for(self, *_: Any, **__: Any) -> NoReturn:
        raise ConnectionError("the result backend is away")
