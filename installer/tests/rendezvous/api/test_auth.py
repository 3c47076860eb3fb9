"""Authentication and its cost: tokens, the brake on strangers, buckets."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jwt
import pytest
from aiohttp.test_utils import TestClient
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted import auth
from installer.assisted.auth import HEADERS, Authenticator, Scheme
from installer.assisted.errors import ConfigurationError, Forbidden, TooMany, Unauthorized
from installer.rendezvous.api import context
from installer.rendezvous.api.context import STRANGERS_AT_ONCE, STRANGERS_PER_SECOND, Bucket
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import KEYS, filled, header, serve
from installer.testing.service.rendezvous_kit import make_keys

STRANGERS = make_keys()
AGENT, USER, WATCHER = Scheme.AGENT, Scheme.USER, Scheme.WATCHER
BURST = int(STRANGERS_AT_ONCE)


def any_of(*schemes: Scheme) -> frozenset[Scheme]:
    return frozenset(schemes)


def authenticator() -> Authenticator:
    return Authenticator("agent-installer-local", KEYS.public_base64)


# tokens


def test_each_scheme_has_its_header() -> None:
    for scheme in Scheme:
        headers = {HEADERS[scheme]: KEYS.token(scheme.value)}
        assert authenticator().check(headers, any_of(scheme)) is scheme
        assert authenticator().check(headers, frozenset(Scheme)) is scheme
        for bearer in ("Bearer ", "bearer "):
            with pytest.raises(Unauthorized, match="must not begin with 'Bearer '"):
                authenticator().check({HEADERS[scheme]: bearer + KEYS.token(scheme.value)}, any_of(scheme))
        for other in set(Scheme) - {scheme}:
            # In another's header, and by another's name.
            with pytest.raises(Unauthorized, match="no token"):
                authenticator().check({HEADERS[other]: KEYS.token(scheme.value)}, any_of(scheme))
            with pytest.raises(Forbidden, match=f"of scheme {other.value} was given in {HEADERS[scheme]}"):
                authenticator().check({HEADERS[scheme]: KEYS.token(other.value)}, any_of(scheme))
    assert {scheme.value: name for scheme, name in HEADERS.items()} == {
        "agentAuth": "X-Secret-Key",
        "userAuth": "Authorization",
        "watcherAuth": "Watcher-Authorization",
    }


def test_a_wrong_token_does_not_spoil_a_right_one_beside_it() -> None:
    headers = {HEADERS[AGENT]: KEYS.token("userAuth"), HEADERS[USER]: KEYS.token("userAuth")}
    assert authenticator().check(headers, any_of(AGENT, USER)) is USER


def test_a_malformed_token_is_refused_without_being_quoted() -> None:
    good = KEYS.token("agentAuth")
    head, body, signature = good.split(".")
    for token in (
        *("x", "x.y.z", "", ".", "..", good[:-4], f"{good}.x", f"{head}.{body}.", f"{head}..{signature}"),
        *(f"{head}.{body}.{'A' * 86}", good + "A" * auth.LONGEST, STRANGERS.token("agentAuth")),
        jwt.encode({"auth_scheme": "agentAuth"}, key=None, algorithm="none"),
        jwt.encode({"auth_scheme": "agentAuth"}, base64.b64decode(KEYS.public_base64).hex(), algorithm="HS256"),
        "\udcff.\udcff.\udcff",
    ):
        with pytest.raises(Unauthorized) as caught:
            authenticator().check({HEADERS[AGENT]: token}, any_of(AGENT))
        assert "token" in caught.value.reason
        assert not token or len(token) < 6 or token not in caught.value.reason


def test_a_token_of_the_greatest_length_is_checked() -> None:
    bare = len(KEYS.token("agentAuth", more=""))
    token = KEYS.token("agentAuth", more="x" * (auth.LONGEST - bare) * 3)[: auth.LONGEST]
    with pytest.raises(Unauthorized, match=r"not valid: (?!it has more)"):
        authenticator().check({HEADERS[AGENT]: token}, any_of(AGENT))
    with pytest.raises(Unauthorized, match=f"more than {auth.LONGEST} characters"):
        authenticator().check({HEADERS[AGENT]: token + "x"}, any_of(AGENT))


def test_a_token_ends() -> None:
    now = time.time()
    verifier = authenticator()
    headers = {HEADERS[AGENT]: KEYS.token("agentAuth", exp=int(now) + 100)}
    assert verifier.check(headers, any_of(AGENT)) is AGENT
    for seconds, recognized in ((99, AGENT), (100, None), (101, None)):
        with mock.patch.object(auth.time, "time", return_value=int(now) + seconds):
            assert verifier.recognized(headers, any_of(AGENT)) is recognized
            if recognized is None:
                with pytest.raises(Unauthorized, match="expired"):
                    verifier.check(headers, any_of(AGENT))
            else:
                assert verifier.check(headers, any_of(AGENT)) is AGENT
    with pytest.raises(Unauthorized, match="expired"):
        authenticator().check({HEADERS[AGENT]: KEYS.token("agentAuth", exp=int(now) - 1)}, any_of(AGENT))


def test_only_verified_tokens_are_remembered() -> None:
    verifier = authenticator()
    good, bad = header(AGENT), {HEADERS[AGENT]: STRANGERS.token("agentAuth")}
    assert verifier.recognized({}, any_of(AGENT)) is None
    assert verifier.recognized(good, any_of(AGENT)) is None
    verifier.check(good, any_of(AGENT))
    with pytest.raises(Unauthorized):
        verifier.check(bad, any_of(AGENT))
    assert verifier.recognized(good, any_of(AGENT)) is AGENT
    assert verifier.recognized(good, any_of(USER, AGENT)) is AGENT
    assert verifier.recognized(bad, any_of(AGENT)) is None
    # Known as what it is, in its own header, and nowhere else.
    assert verifier.recognized(good, any_of(USER)) is None
    assert verifier.recognized({HEADERS[USER]: good[HEADERS[AGENT]]}, any_of(USER)) is None


def test_a_known_token_costs_no_signature() -> None:
    verifier = authenticator()
    good = header(AGENT)
    verifier.check(good, any_of(AGENT))
    with mock.patch.object(jwt, "decode", side_effect=AssertionError):
        assert verifier.check(good, any_of(AGENT)) is AGENT


def test_known_tokens_are_not_forgotten_for_new_ones() -> None:
    verifier = authenticator()
    good = header(AGENT)
    verifier.check(good, any_of(AGENT))
    others = [{HEADERS[AGENT]: KEYS.token("agentAuth", number=number)} for number in range(auth.REMEMBERED + 5)]
    for other in others:
        verifier.check(other, any_of(AGENT))
        assert verifier.recognized(good, any_of(AGENT)) is AGENT
    still = [verifier.recognized(other, any_of(AGENT)) is AGENT for other in others]
    assert not still[0]
    assert still.count(True) == auth.REMEMBERED - 1  # and `good`


def _pem(key: Any) -> str:
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(public).decode()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "must hold"),
        ("%", "not base64"),
        (base64.b64encode(b"no key").decode(), "not a PEM"),
        (base64.b64encode(b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----").decode(), "not a PEM"),
        (_pem(rsa.generate_private_key(65537, 2048)), "P-256"),
        (_pem(ec.generate_private_key(ec.SECP384R1())), "P-256"),
    ],
)
def test_a_key_that_verifies_nothing_is_refused_at_the_start(text: str, rule: str) -> None:
    with pytest.raises(ConfigurationError, match=f"EC_PUBLIC_KEY_PEM.*{rule}"):
        Authenticator("agent-installer-local", text)


def test_a_key_under_the_name_that_openshift_install_gives_it() -> None:
    renamed = base64.b64decode(KEYS.public_base64).replace(b" PUBLIC KEY-", b" EC PUBLIC KEY-")
    keeper = Authenticator("agent-installer-local", base64.b64encode(renamed).decode())
    keeper.check({HEADERS[AGENT]: KEYS.token("agentAuth")}, any_of(AGENT))


def test_only_two_ways_to_authenticate() -> None:
    for kind in ("", "rhsso", "NONE", "None", "local"):
        with pytest.raises(ConfigurationError, match="AUTH_TYPE"):
            Authenticator(kind, KEYS.public_base64)
    everybody = Authenticator("none", "")
    assert everybody.check({}, any_of(USER)) is USER
    assert everybody.recognized({}, any_of(WATCHER)) is WATCHER


# the brake


class Turned:
    """A clock that only tests turn, for all buckets that are made while it is there."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def braked(directory: Path, use: Callable[[TestClient, Turned], Any]) -> None:
    """Provide a service whose buckets have a clock of their own."""
    clock = Turned()

    async def run(client: TestClient, fleet: Fleet) -> None:
        await use(client, clock)

    with mock.patch.object(context.Bucket, "__init__", _with(clock)):
        serve(directory, run)


def _with(clock: Turned) -> Callable[..., None]:
    original = Bucket.__init__

    def init(self: Bucket, rate: float, burst: float, _: Any = None) -> None:
        original(self, rate, burst, clock)

    return init


async def status(client: TestClient, headers: dict[str, str], path: str = "/clusters") -> int:
    return (await client.get(filled(path), headers=headers)).status


def test_checks_for_strangers_are_braked_and_who_is_known_is_not(tmp_path: Path) -> None:
    async def use(client: TestClient, clock: Turned) -> None:
        user, watcher = header(USER), header(WATCHER)
        assert await status(client, user) == 200
        # That first one was a stranger's too.
        with mock.patch.object(jwt, "decode", wraps=jwt.decode) as decode:
            seen = [await status(client, {"Authorization": STRANGERS.token("userAuth", n=n)}) for n in range(60)]
            assert seen == [401] * (BURST - 1) + [429] * (60 - BURST + 1)
            # What the brake is for: no signature is checked any more.
            assert decode.call_count == BURST - 1
        # A caller that has been let in goes on, from the same address and at once; a stranger waits until it is quiet.
        assert await status(client, user) == 200
        assert await status(client, watcher) == 429
        assert await status(client, {}) == 429
        clock.now += 0.99 / STRANGERS_PER_SECOND
        assert await status(client, watcher) == 429
        clock.now += 0.02 / STRANGERS_PER_SECOND
        assert await status(client, watcher) == 200
        assert await status(client, watcher) == 200
        assert await status(client, {}) == 429

    braked(tmp_path, use)


def test_the_rate_limit_of_strangers_recovers_after_a_flood(tmp_path: Path) -> None:
    """A refused request costs nothing: in the long run, one a second is looked at, however many ask."""

    async def use(client: TestClient, clock: Turned) -> None:
        for _ in range(BURST):
            assert await status(client, {}) == 401
        seen = []
        for _ in range(100):
            clock.now += 0.1 / STRANGERS_PER_SECOND
            seen.append(await status(client, {}))
        assert seen.count(401) in (9, 10)

    braked(tmp_path, use)


def test_wrong_signatures_of_urls_are_braked_too(tmp_path: Path) -> None:
    async def use(client: TestClient, clock: Turned) -> None:
        path = "/clusters/{cluster_id}/logs?signature=x"
        seen = [(await client.get(filled(path))).status for _ in range(BURST + 5)]
        assert seen == [401] * BURST + [429] * 5

    braked(tmp_path, use)


def test_each_address_has_a_brake_of_its_own() -> None:
    bucket = Bucket(1.0, 2.0, Turned())
    for _ in range(2):
        bucket.take("a")
    with pytest.raises(TooMany, match="from a, try"):
        bucket.take("a")
    bucket.take("b")
    for _ in range(2):
        bucket.take("")
    with pytest.raises(TooMany, match="from this address"):
        bucket.take("")


def test_strangers_use_up_nothing_of_those_with_a_token(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        user = header(USER)
        assert await status(client, user) == 200
        for _ in range(2 * BURST):
            await status(client, {})
        seen = [(await client.get("/health")).status for _ in range(10)]
        assert (seen[0], set(seen)) == (200, {200, 429})
        assert await status(client, user) == 200

    # Two at once are all that each may ask for, with a proof and where none is needed.
    serve(tmp_path, use, REQUESTS_PER_SECOND="1")


# buckets


@given(st.lists(st.floats(0, 3), max_size=60), st.floats(0.5, 4), st.integers(1, 6))
def test_bucket(pauses: list[float], rate: float, burst: int) -> None:
    """Against a reckoning of its own: let in exactly when a whole one is left."""
    clock = Turned()
    bucket = Bucket(rate, float(burst), clock)
    left = float(burst)
    for pause in pauses:
        clock.now += pause
        left = min(float(burst), left + pause * rate)
        if abs(left - 1) < 1e-6:
            continue
        if left >= 1:
            bucket.take("a")
            left -= 1
        else:
            with pytest.raises(TooMany):
                bucket.take("a")
    bucket.take("b")


def test_a_bucket_forgets_who_was_not_seen_for_longest() -> None:
    clock = Turned()
    bucket = Bucket(0.001, 1.0, clock)
    bucket.take("first")
    for number in range(context.REMEMBERED - 1):
        bucket.take(str(number))
    with pytest.raises(TooMany):
        bucket.take("first")
    bucket.take("one more")
    with pytest.raises(TooMany):
        bucket.take("first")
    # The second one is gone, and comes as if for the first time.
    bucket.take("0")
