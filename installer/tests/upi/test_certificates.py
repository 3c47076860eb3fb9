"""Certificates within Ignition configs: the first that ends, and what is said of it."""

import base64
import datetime as dt
import gzip
import json
import logging
import re

import pytest

from installer.common.certificates import DAY, authority
from installer.upi import certificates

NOW = dt.datetime.now(dt.UTC)


def pem(days: float) -> bytes:
    return authority("x", lifetime=DAY * days).certificate.encode()


def config(*contents: dict) -> bytes:
    files = [{"path": f"/opt/{number}", "contents": item} for number, item in enumerate(contents)]
    return json.dumps({"ignition": {"version": "3.2.0"}, "storage": {"files": files}}).encode()


def plain(data: bytes) -> dict:
    return {"source": "data:;base64," + base64.b64encode(data).decode()}


def packed(data: bytes) -> dict:
    return {"source": "data:;base64," + base64.b64encode(gzip.compress(data)).decode(), "compression": "gzip"}


def test_the_first_of_all_counts_however_it_is_packed(caplog):
    caplog.set_level(logging.WARNING)
    ignition = config(plain(pem(30)), packed(b"kubeconfig: " + pem(10) + pem(1)), {"source": "https://x.example/f"})
    first = certificates.first(ignition)
    assert first is not None
    assert first.path == "/opt/1"
    assert abs(first.at - NOW - DAY) < dt.timedelta(hours=1)
    certificates.warn({"bootstrap.ign": ignition, "metadata.json": b"{}", "worker.ign": config()})
    [line] = caplog.messages
    assert re.search(r"bootstrap\.ign can be used for 2[34]h\d+m", line)
    assert "/opt/1" in line


def test_what_has_expired_is_told_with_the_remedy():
    ignition = config(plain(pem(1)), plain(pem(2)), plain(pem(9)))
    assert certificates.expired(ignition, NOW) == ""
    line = certificates.expired(ignition, NOW + 3 * DAY)
    assert line.startswith("2 certificates of bootstrap.ign have expired, the first (/opt/0) 4")
    assert "node0 create ignition-configs" in line


@pytest.mark.parametrize("data", [b"", b"[]", b'{"storage": {}}', b'{"storage": {"files": [{}]}}', b"\xff"])
def test_what_is_no_config_has_none(data):
    assert certificates.first(data) is None
