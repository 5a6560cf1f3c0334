"""Servers of another shape than the URL says, or that will not have us: told at once, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from redis import Redis

from anarchon.backends.redis import RedisBackend, RedisStore
from anarchon.errors import StoreError, StoreRefused, StoreUnavailable
from tests.contract.harness_redis import rights
from tests.servers import Server, ServersForTests
from tests.servers.cluster import ClusterSet
from tests.servers.sentinel import SentinelSet
from tests.unit.redis.scripted_server import healthy_but, scripted_server

pytestmark = pytest.mark.xdist_group("shapes of redis")

CLUSTER_RIGHTS = (*rights(), *rights("on each node of a cluster, besides"))


@pytest.fixture(scope="module")
def sentinels(servers: ServersForTests) -> Iterator[SentinelSet]:
    made = SentinelSet(servers, "redis-8.0", password="p@ss", sentinel_password="s3cret")
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster(servers: ServersForTests) -> Iterator[ClusterSet]:
    made = ClusterSet(servers, "valkey-9", tls=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(servers: ServersForTests) -> Server:
    return servers.get("redis-8.0")


async def told(url: str, *, alike: bool = True) -> StoreError:
    """Return what opening says, and so does looking."""
    backend = RedisBackend(url)
    store = backend.connect("shapes")
    with pytest.raises(StoreError) as opened:
        await store.open()
    await store.close()
    with pytest.raises(StoreError) as looked:
        await backend.examine("shapes")
    assert type(looked.value) is type(opened.value)
    assert not alike or looked.value.problem == opened.value.problem
    assert opened.value.store == backend.label
    return opened.value


async def test_a_set_with_passwords_is_served(sentinels):
    backend = RedisBackend(sentinels.url("default:p%40ss@"))
    standing = await backend.examine("shapes")
    store = backend.connect("shapes")

    await store.open()
    await store.active(())
    await store.close()

    assert standing.server.startswith("Redis 8.0.")
    assert standing.doubts == ()
    assert (await backend.examine("shapes")).is_prepared


async def test_a_cluster_with_tls_is_served(cluster):
    backend = RedisBackend(cluster.url())
    standing = await backend.examine("shapes")
    store = backend.connect("shapes")

    await store.open()
    await store.active(())
    await store.close()

    assert "a cluster of 3" in standing.server
    assert standing.doubts == ()
    assert (await backend.examine("shapes")).is_prepared


async def test_closing_towards_servers_that_are_silent_raises_nothing(cluster):
    """TLS ends with an answer of the other side, which is waited for."""
    store = RedisBackend(cluster.url(socket_connect_timeout=1)).connect("shapes")
    await store.open()
    for node in cluster.nodes:
        node.pause()

    try:
        await store.close()
    finally:
        for node in cluster.nodes:
            node.resume()


async def test_looking_at_a_cluster_leaves_nothing_there(cluster):
    await RedisBackend(cluster.url()).examine("looked at")

    for node in cluster.nodes:
        with cluster.admin(node) as admin:
            assert list(admin.scan_iter("anarchon:looked at*")) == []


async def test_a_node_of_a_cluster_is_no_single_server(cluster):
    error = await told(f"redis://127.0.0.1:{cluster.nodes[0].port}")

    assert type(error) is StoreError
    assert "write redis+cluster://HOST:PORT" in error.problem


async def test_a_node_of_a_cluster_is_no_single_server_for_who_may_not_look(cluster):
    for node in cluster.nodes:
        with cluster.admin(node) as admin:
            admin.execute_command("ACL", "SETUSER", "blind", "on", ">s3cret", *rights())
    url = f"redis://blind:s3cret@127.0.0.1:{cluster.nodes[0].port}"
    store = RedisBackend(url).connect("some other")

    with pytest.raises(StoreError, match=r"write redis\+cluster://HOST:PORT"):
        await _open_and_read(store)
    await store.close()


async def _open_and_read(store: RedisStore) -> None:
    await store.open()
    # most of these lie elsewhere
    await store.history([f"job-{n}" for n in range(20)], 1)


async def test_a_single_server_is_no_cluster(server):
    error = await told(f"redis+cluster://127.0.0.1:{server.port}")

    assert type(error) is StoreError
    assert "write redis://HOST:PORT" in error.problem


async def test_a_single_server_is_no_sentinel(server):
    error = await told(f"redis+sentinel://127.0.0.1:{server.port}/main")

    assert type(error) is StoreRefused
    assert "write redis://HOST:PORT for one server" in error.problem


async def test_a_sentinel_is_no_single_server(sentinels):
    port = sentinels.sentinels[0].port

    error = await told(f"redis://:s3cret@127.0.0.1:{port}")

    assert type(error) is StoreError
    assert "write redis+sentinel://HOST:PORT/SERVICE" in error.problem


@pytest.mark.parametrize("password", ["", "sentinel_password=wrong"])
async def test_sentinels_that_want_another_password_say_which_option_it_is(sentinels, password):
    url = sentinels.url("default:p%40ss@").replace("sentinel_password=s3cret", password)

    error = await told(url)

    assert type(error) is StoreRefused
    assert "sentinel_password=" in error.problem
    assert "wrong" not in error.problem


async def test_a_service_that_no_sentinel_knows_is_named(sentinels):
    error = await told(sentinels.url("default:p%40ss@").replace("/main", "/mian"))

    assert type(error) is StoreRefused
    assert "watches no service called 'mian'" in error.problem


async def test_a_sentinel_that_is_away_is_a_doubt(sentinels):
    port = sentinels.sentinels[0].port
    url = sentinels.url("default:p%40ss@").replace(f":{port},", ":1,")

    standing = await RedisBackend(url).examine("shapes")

    (doubt,) = standing.doubts
    assert "127.0.0.1:1: " in doubt


@pytest.mark.parametrize("login", ["", "default:wrong@", "nobody:s3cret@"])
async def test_a_wrong_password_is_refused_behind_sentinels_too(sentinels, login):
    error = await told(sentinels.url(login))

    assert type(error) is StoreRefused
    assert "uthenticat" in error.problem or "invalid username-password" in error.problem


async def test_a_wrong_password_is_refused_in_a_cluster(cluster):
    error = await told(cluster.url("nobody:s3cret@"))

    assert type(error) is StoreRefused
    assert "invalid username-password" in error.problem


async def test_a_database_that_is_not_there_is_named(server):
    error = await told(f"redis://127.0.0.1:{server.port}/99")

    assert type(error) is StoreRefused
    assert "no such database" in error.problem


async def test_a_replica_is_refused(sentinels):
    replica = next(s for s in sentinels.servers if s is not sentinels.primary())

    error = await told(f"redis://:p%40ss@127.0.0.1:{replica.port}")

    assert type(error) is StoreRefused
    assert "read-only replica" in error.problem


SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    "name",
    ["redis-8.0", "valkey-9", *(pytest.param(n, marks=SOAK) for n in ("redis-7.0", "valkey-8.0"))],
)
async def test_a_right_that_is_missing_is_named_before_it_is_needed(servers, name):
    server, granted = servers.get(name), rights()
    for missing in granted[1:]:
        with Redis(port=server.port) as admin:
            left = [right for right in granted if right != missing]
            admin.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">s3cret", *left)

        error = await told(f"redis://poor:s3cret@127.0.0.1:{server.port}", alike=False)

        assert type(error) is StoreRefused
        named = set(re.findall(r"\+(\w+)|'([\w|]+)'", error.problem.replace("'poor'", "")))
        assert named in ({(missing[1:], "")}, {("", missing[1:])})
    # one version dies of questions that are put badly
    assert server.is_running


async def test_keys_that_may_not_be_touched_are_named(server):
    with Redis(port=server.port) as admin:
        granted = ["~other:*", *rights()[1:], "+info"]
        admin.execute_command("ACL", "SETUSER", "astray", "reset", "on", ">s3cret", *granted)

    error = await told(f"redis://astray:s3cret@127.0.0.1:{server.port}")

    assert type(error) is StoreRefused
    assert "No permissions to access a key" in error.problem


async def test_a_right_that_is_missing_on_one_node_of_a_cluster_is_named_with_it(cluster):
    for node in cluster.nodes:
        with cluster.admin(node) as admin:
            granted = [r for r in CLUSTER_RIGHTS if node is not cluster.nodes[2] or r != "+hget"]
            admin.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">s3cret", *granted)

    error = await told(cluster.url("poor:s3cret@"))

    assert type(error) is StoreRefused
    assert "+hget" in error.problem
    assert str(cluster.nodes[2].tls_port) in error.problem


async def test_the_right_to_ask_who_holds_what_is_named(cluster):
    for node in cluster.nodes:
        with cluster.admin(node) as admin:
            admin.execute_command("ACL", "SETUSER", "lost", "reset", "on", ">s3cret", *rights())

    error = await told(cluster.url("lost:s3cret@"))

    assert type(error) is StoreRefused
    assert "cluster|slots" in error.problem


async def test_who_may_not_look_is_a_doubt_only(server):
    with Redis(port=server.port) as admin:
        admin.execute_command("ACL", "SETUSER", "blind", "reset", "on", ">s3cret", *rights())

    standing = await RedisBackend(f"redis://blind:s3cret@127.0.0.1:{server.port}").examine("shapes")

    (doubt,) = standing.doubts
    assert "+info" in doubt


async def test_an_old_server_is_named_with_what_is_needed():
    info = b"redis_version:6.2.14\r\nredis_mode:standalone\r\n"
    say = healthy_but(INFO=b"$%d\r\n%b\r\n" % (len(info), info))
    async with scripted_server(say) as port:
        error = await told(f"redis://127.0.0.1:{port}")

    assert type(error) is StoreError
    assert "Redis 6.2.14 is too old: 7 or later is needed" in error.problem


async def test_no_sentinel_and_no_node_at_all_is_a_store_that_is_away():
    for url in ("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", "redis+cluster://127.0.0.1:1"):
        error = await told(url)

        assert type(error) is StoreUnavailable
        assert "127.0.0.1:1" in error.problem


async def test_nobody_who_can_be_found_is_a_mistake():
    for url in ("redis+sentinel://no-such-host.invalid/m", "redis+cluster://no-such-host.invalid"):
        error = await told(url)

        assert type(error) is StoreRefused
        assert "no-such-host.invalid" in error.problem
