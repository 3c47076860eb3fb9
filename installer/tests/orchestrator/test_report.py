"""The orchestrator's talk with the service: again while it is away, and never against its word."""

from __future__ import annotations

from itertools import chain, count, repeat
from types import SimpleNamespace

import pytest

from installer.assisted.enums import Stage
from installer.orchestrator import report
from installer.orchestrator.errors import StageError
from installer.testing.orchestrator_kit import Site


def test_the_service_is_asked_again_while_it_is_away(site: Site) -> None:
    site.service.statuses = [503, 500]
    site.service.files["a"] = b"content"
    site.meanwhile = [lambda: None] * 2
    assert site.reporter().file("a") == b"content"
    assert site.naps == [2.0, 2.0]
    assert site.service.headers[0]["X-Secret-Key"] == "the token"


@pytest.mark.parametrize("status", [400, 404, 409, 499])
def test_a_refusal_is_final(site: Site, status: int) -> None:
    site.service.statuses = [status]
    with pytest.raises(StageError, match=r"^download a: .*scripted refusal"):
        site.reporter().file("a")
    # Where it may mean that this installation is over, the host is looked up.
    assert len(site.service.headers) == (2 if status in (404, 409) else 1)


def test_a_service_that_stays_away_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(0, 45)  # each request takes so long
    monkeypatch.setattr(report, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    site.service.statuses = [503] * 10
    site.meanwhile = [lambda: None] * 2
    with pytest.raises(StageError, match=r"^list hosts: "):
        site.reporter().hosts()
    assert len(site.service.headers) == 3


def test_a_host_that_stood_still_asks_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes in a request are not ten minutes in which the service was away."""
    clock = chain([0], repeat(600))
    monkeypatch.setattr(report, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    site.service.statuses = [503] * 2
    site.service.files["a"] = b"content"
    site.meanwhile = [lambda: None] * 2
    assert site.reporter().file("a") == b"content"


def test_a_stage_that_is_not_taken_is_no_failure(site: Site) -> None:
    site.service.statuses = [409]
    site.reporter().stage(Stage.INSTALLING)
    assert site.timeline.stages() == [("Installing", "")]
    site.service.hosts = []
    assert site.reporter().hosts() == []
    site.service.answer = lambda *args: (200, b"")  # type: ignore[method-assign,assignment]
    assert site.reporter().hosts() == []


@pytest.mark.parametrize("text", [b"[]", b"{}", b'"ignition"', b'["ignition"]', b"1"])
def test_what_is_no_ignition_config(text: bytes) -> None:
    with pytest.raises(StageError, match=r"^a.ign: is not an Ignition config$"):
        report.parse(text, "a.ign")


def test_an_ignition_config() -> None:
    assert report.parse(b'{"ignition": {}}', "a.ign") == {"ignition": {}}
    with pytest.raises(StageError, match=r"^a.ign: is not JSON: "):
        report.parse(b"{", "a.ign")


def test_a_service_that_nobody_listens_at_is_asked_again(site: Site) -> None:
    reporter = site.reporter()
    reporter.client = site.client("http://127.0.0.1:1")

    def there() -> None:
        reporter.client = site.client()

    site.service.host_ignition = b"x"
    site.meanwhile = [there]
    assert reporter.host_ignition() == b"x"
    assert site.naps == [2.0]
