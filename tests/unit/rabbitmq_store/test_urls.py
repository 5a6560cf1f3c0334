"""What a URL may say, and what is said of one that cannot be used."""

from __future__ import annotations

import pytest

from anarchon.backends import open_backend
from anarchon.backends.rabbitmq import RabbitMQBackend
from anarchon.backends.rabbitmq.names import LONGEST_VHOST
from anarchon.backends.rabbitmq.settings import Settings
from anarchon.errors import ConfigurationError

SECRET = "s3cret"


@pytest.mark.parametrize("scheme", ["amqp", "amqps"])
def test_a_url_is_opened_by_its_scheme(scheme):
    assert isinstance(open_backend(f"{scheme}://host"), RabbitMQBackend)


def test_a_url_is_shown_without_user_and_password():
    backend = RabbitMQBackend(f"amqps://us%40er:{SECRET}@mq.example:5673/jobs")

    assert backend.label == "amqps://mq.example:5673/jobs"
    assert SECRET not in repr(backend)
    assert SECRET not in repr(backend.connect("a"))
    assert SECRET not in repr(Settings.of(f"amqp://u:{SECRET}@h"))


@pytest.mark.parametrize(
    ("url", "port", "vhost"),
    [
        ("amqp://h", 5672, "/"),
        ("amqp://h/", 5672, "/"),
        ("amqp://h//", 5672, "/"),
        ("amqp://h/%2F", 5672, "/"),
        ("amqp://h:5673/jobs", 5673, "jobs"),
        ("amqp://h/a%2Fb", 5672, "a/b"),
        ("amqps://h/jobs", 5671, "jobs"),
        ("amqp://[::1]:5673/jobs", 5673, "jobs"),
    ],
)
def test_what_is_left_out_is_as_everywhere(url, port, vhost):
    settings = Settings.of(url)

    assert (settings.port, settings.vhost) == (port, vhost)
    assert (settings.user, settings.password) == ("guest", "guest")


def test_user_and_password_are_decoded():
    settings = Settings.of("amqp://us%40er:p%2Fw%3A@h")

    assert (settings.user, settings.password) == ("us@er", "p/w:")


@pytest.mark.parametrize(
    ("url", "option"),
    [
        ("amqp://h?queue_type=stream", "queue_type"),
        ("amqp://h?heartbeat=3", "store"),
        ("amqp://h?cacertfile=ca.pem", "store"),
        ("amqps://h?cacertfile=nowhere.pem", "cacertfile"),
        ("amqps://h?verify=sometimes", "verify"),
        (f"amqp://h/{'v' * (LONGEST_VHOST + 1)}", "store"),
        ("redis://h", "store"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_write(url, option):
    with pytest.raises(ConfigurationError) as raised:
        RabbitMQBackend(url)

    assert raised.value.option == option
    assert raised.value.fix


@pytest.mark.parametrize("odd", ["/", "#", "?", "/@", "[", "]", "/:"])
def test_a_password_that_tears_the_url_is_never_quoted(odd):
    with pytest.raises(ConfigurationError) as raised:
        RabbitMQBackend(f"amqp://user:{SECRET}{odd}{SECRET}@host:5672/jobs")

    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


def test_queues_are_classic_unless_the_url_says_quorum():
    assert Settings.of("amqp://h").queue_type == "classic"
    assert Settings.of("amqp://h?queue_type=quorum").queue_type == "quorum"


def test_the_host_of_the_certificate_is_checked_unless_the_url_says_not_to():
    checked = Settings.of("amqps://h").tls
    unchecked = Settings.of("amqps://h?verify=verify_none").tls

    assert checked is not None
    assert checked["server_hostname"] == "h"
    assert unchecked is not None
    assert "server_hostname" not in unchecked
