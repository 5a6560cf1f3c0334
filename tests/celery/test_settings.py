"""The store, the namespace and the beat scheduler of a project."""

import logging
import ssl
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.beat import PersistentScheduler

from anarchon import ConfigurationError
from anarchon.backends.memory import MemoryBackend
from anarchon_celery import foreign_beat_scheduler, scheduler_for
from anarchon_celery.settings import namespace_of, setting, store_of, warn_of_unknown


def project(**settings: Any) -> Celery:
    app = Celery("proj", set_as_current=False)
    app.conf.update(settings)
    return app


def test_a_given_store_comes_first() -> None:
    app = project(anarchon_store="redis://conf", broker_url="redis://broker")

    assert store_of(app, "redis://given") == "redis://given"


@pytest.mark.parametrize(
    ("namespace", "settings"),
    [
        (None, {"anarchon_store": "redis://s"}),
        (None, {"CELERYBEAT_SCHEDULE": {}, "ANARCHON_STORE": "redis://s"}),
        (None, {"CELERYBEAT_SCHEDULE": {}, "CELERY_ANARCHON_STORE": "redis://s"}),
        ("CELERY", {"CELERY_BEAT_SCHEDULE": {}, "CELERY_ANARCHON_STORE": "redis://s"}),
    ],
)
def test_the_store_is_read_in_every_spelling(
    namespace: str | None, settings: dict[str, Any]
) -> None:
    app = Celery("proj", set_as_current=False)
    app.config_from_object(SimpleNamespace(**settings), namespace=namespace)

    assert store_of(app) == "redis://s"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("anarchon_namespace", "shop"),
        ("anarchon_disabled", ["a"]),
        ("anarchon_jobs", {"a": {"overlap": "skip"}}),
        ("anarchon_track", False),
        ("anarchon_embedded", True),
    ],
)
@pytest.mark.parametrize(
    ("namespace", "prefix", "beside"),
    [
        (None, "", "beat_schedule"),
        (None, "", "CELERYBEAT_SCHEDULE"),
        (None, "CELERY_", "CELERYBEAT_SCHEDULE"),
        ("CELERY", "CELERY_", "CELERY_BEAT_SCHEDULE"),
        ("CELERY", "", "CELERY_BEAT_SCHEDULE"),
    ],
)
def test_every_setting_of_ours_is_read_as_the_project_spells_its_settings(
    name: str, value: Any, namespace: str | None, prefix: str, beside: str
) -> None:
    spelling = name if beside.islower() else f"{prefix}{name.upper()}"
    app = Celery("proj", set_as_current=False)
    app.config_from_object(SimpleNamespace(**{spelling: value, beside: {}}), namespace=namespace)

    assert setting(app, name) == value


@pytest.mark.parametrize(
    ("settings", "store"),
    [
        ({"ANARCHON_STORE": "redis://bare"}, "redis://bare"),
        ({"ANARCHON_STORE": "redis://bare", "CELERY_ANARCHON_STORE": "redis://s"}, "redis://s"),
    ],
)
def test_beside_a_namespace_a_bare_name_is_read_where_there_is_no_other(
    settings: dict[str, Any], store: str
) -> None:
    app = Celery("proj", set_as_current=False)
    app.config_from_object(SimpleNamespace(**settings), namespace="CELERY")

    assert store_of(app) == store


@pytest.mark.parametrize(
    ("namespace", "spelling"),
    [
        (None, "anarchon_namspace"),
        (None, "ANARCHON_NAMSPACE"),
        ("CELERY", "CELERY_ANARCHON_NAMSPACE"),
    ],
)
def test_a_misspelt_setting_is_told_and_what_it_may_have_meant(
    namespace: str | None, spelling: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Celery("proj", set_as_current=False)
    app.config_from_object(SimpleNamespace(**{spelling: "staging"}), namespace=namespace)

    warn_of_unknown(app)

    (told,) = caplog.messages
    assert "there is no setting " in told
    assert told.endswith("did you mean anarchon_namespace?")


def test_the_settings_that_there_are_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("proj", set_as_current=False)
    app.conf.update(anarchon_store="memory://", anarchon_track=True, anarchon_embedded=False)

    warn_of_unknown(app)

    assert caplog.messages == []


def test_a_redis_broker_is_the_store_before_a_redis_result_backend() -> None:
    app = project(broker_url="redis://broker:6379/1", result_backend="redis://results/2")

    assert store_of(app) == "redis://broker:6379/1"


def test_a_redis_result_backend_is_the_store_where_the_broker_is_none() -> None:
    app = project(broker_url="amqp://broker", result_backend="redis://results/2")

    assert store_of(app) == "redis://results/2"


def test_without_a_redis_the_store_is_a_file_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="anarchon.celery"):
        assert store_of(project(broker_url="amqp://broker")) == "sqlite:///anarchon.db"

    assert "one machine only" in caplog.text.replace("this one machine", "one machine only")
    assert "anarchon_store" in caplog.text


@pytest.mark.parametrize(
    ("broker", "store"),
    [
        ("redis://", "redis://localhost/"),
        ("redis://:p%40ss@host:6380/3", "redis://:p%40ss@host:6380/3"),
        ("rediss://host/1?ssl_cert_reqs=CERT_NONE", "rediss://host/1?ssl_cert_reqs=none"),
        (
            "rediss://host/1?ssl_cert_reqs=required&ssl_ca_certs=%2Fca.pem",
            "rediss://host/1?ssl_ca_certs=%2Fca.pem&ssl_cert_reqs=required",
        ),
        ("redis+socket:///run/redis.sock?virtual_host=2", "unix:///run/redis.sock?db=2"),
    ],
)
def test_the_url_of_a_redis_broker_is_told_as_one_of_a_store(broker: str, store: str) -> None:
    app = project(broker_url=broker)

    assert store_of(app) == store
    assert scheduler_for(app).store.startswith(store.partition(":")[0])


@pytest.mark.parametrize(
    ("backend", "store"),
    [
        ("redis://host/0?visibility_timeout=43200&socket_timeout=3", "redis://host/0"),
        ("redis://host?db=4&health_check_interval=5", "redis://host/?db=4"),
        ("redis://host?password=p@ss", "redis://host/?password=p%40ss"),
    ],
)
def test_what_is_about_celerys_own_client_is_left_out(backend: str, store: str) -> None:
    app = project(broker_url="amqp://broker", result_backend=backend)

    assert store_of(app) == store
    assert scheduler_for(app).store.startswith("redis")


def test_encryption_set_beside_the_url_counts_too() -> None:
    tls = {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_ca_certs": "/ca.pem"}
    app = project(broker_url="redis://host/1", broker_use_ssl=tls)

    assert store_of(app) == "rediss://host/1?ssl_ca_certs=%2Fca.pem&ssl_cert_reqs=required"


@pytest.mark.parametrize(
    "settings",
    [
        {"broker_url": "sentinel://host:26379"},
        {"broker_url": "amqp://host", "result_backend": "sentinel://host:26379"},
        {"broker_url": "redis://one;redis://two"},
        {"broker_url": ["redis://one", "redis://two"]},
        {"anarchon_store": 5},
        {"anarchon_store": ""},
    ],
    ids=repr,
)
def test_a_setting_that_is_no_one_store_asks_for_anarchon_store(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        store_of(project(**settings))

    assert "anarchon_store" in str(caught.value)


def test_a_message_about_the_store_tells_no_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        store_of(project(broker_url="sentinel://:s3cret@host;sentinel://:s3cret@other"))

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:/s3cret@h:6379/0",
        "redis://u:12/s3cret@h/0",
        "redis://u:12?s3cret@h/0",
        "redis://u:12#s3cret@h/0",
        "redis://u:pa[s3cret]x@h/0",
        "redis://u:s3cret\u2100@h/0",
        "redis://[::1",
        "redis+socket://u:12/s3cret@h",
    ],
)
@pytest.mark.parametrize(
    ("option", "settings"),
    [("broker_url", {}), ("result_backend", {"broker_url": "memory://"})],
)
def test_a_redis_whose_url_cannot_be_read_is_told_without_its_password(
    option: str, settings: dict[str, Any], url: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        store_of(project(**{**settings, option: url}))

    assert caught.value.option == option
    assert "%2F" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize("expires", [None, 60])
@pytest.mark.parametrize(
    "url",
    [
        "redis://u:pa[s3cret]x@h/0",
        "redis://:12/s3cret@h/0",
        "redis://[::1",
        "s3cret@h",
    ],
)
def test_a_result_backend_that_cannot_be_read_is_told_without_its_password(
    url: str, expires: int | None
) -> None:
    app = project(broker_url="memory://", result_backend=url, result_expires=expires)

    with pytest.raises(ConfigurationError) as caught:
        scheduler_for(app, store="memory://")

    assert caught.value.option == "result_backend"
    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_result_backend_whose_library_is_missing_hinders_no_schedule() -> None:
    app = project(broker_url="memory://", result_backend="nosuch://h", result_expires=None)

    assert scheduler_for(app, store="memory://").store == "memory://"


def test_a_backend_may_be_given_instead_of_a_url() -> None:
    backend = MemoryBackend()

    assert scheduler_for(project(broker_url="amqp://x"), store=backend).store == "memory://"


@pytest.mark.parametrize(
    ("main", "settings", "expected"),
    [
        ("proj", {}, "proj"),
        (None, {}, "celery"),
        ("proj", {"anarchon_namespace": "other"}, "other"),
    ],
)
def test_the_namespace_is_the_setting_or_the_name_of_the_app(
    main: str | None, settings: dict[str, Any], expected: str
) -> None:
    app = Celery(main, set_as_current=False)
    app.conf.update(settings)

    assert namespace_of(app) == expected
    assert scheduler_for(app, store="memory://").namespace == expected


@pytest.mark.parametrize(
    "chosen",
    [
        "celery.beat:PersistentScheduler",
        "celery.beat.PersistentScheduler",
        "celery.beat:Scheduler",
        PersistentScheduler,
        None,
    ],
)
def test_the_stock_schedulers_read_the_settings_as_we_do(chosen: Any) -> None:
    assert foreign_beat_scheduler(project(beat_scheduler=chosen)) is None


@pytest.mark.parametrize(
    "chosen",
    ["django_celery_beat.schedulers:DatabaseScheduler", "django", "redbeat.RedBeatScheduler"],
)
def test_a_scheduler_with_entries_elsewhere_is_named(chosen: str) -> None:
    assert foreign_beat_scheduler(project(beat_scheduler=chosen)) == chosen
