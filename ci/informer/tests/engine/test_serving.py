"""What scheduler and workers say of who speaks to them."""

import contextlib
import logging
import os
import socket
import ssl
import struct
import subprocess
import sys
from pathlib import Path

import dask
import pytest

from ci.informer.engine import serving, tls
from lab.waiting import wait_until

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("setting", serving.SETTINGS)
def test_settings_are_known_to_dask(setting):
    """It ignores others without a word."""
    assert any(dask.config.get(setting, None, config=one) is not None for one in dask.config.defaults)


@pytest.mark.parametrize(
    ("told", "news"), [("Failed to communicate with scheduler during heartbeat.", False), ("Compute Failed", True)]
)
def test_a_scheduler_that_is_gone_is_said_without_a_traceback(told, news):
    assert serving.is_news(logging.LogRecord("distributed.worker", logging.ERROR, "", 0, told, (), None)) is news


@pytest.mark.parametrize(
    ("error", "news"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), False),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), False),
        (OSError("Stream is closed"), False),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), True),
        (ssl.SSLError(1, "tlsv1 alert unknown ca"), True),
    ],
)
def test_a_handshake_is_news_where_keys_do_not_do(error, news):
    told = "Listener on %r: TLS handshake failed with remote %r: %s"
    args = ("tls://10.0.0.1:8786", "tls://10.0.0.2:40000", error)
    assert serving.is_news(logging.LogRecord("distributed.comm.tcp", logging.WARNING, "", 0, told, args, None)) is news


def _stranger(address, keys):
    """Speak TLS to a scheduler with other keys."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(keys / tls.CERTIFICATE, keys / tls.KEY)
    with (
        socket.create_connection(address) as plain,
        contextlib.suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(plain) as secured,
    ):
        secured.recv(1)


def test_a_scheduler_tells_of_wrong_keys_and_not_of_who_went(tmp_path):
    """One that hangs up, one that is killed, and one whose keys are another authority's."""
    tls.make(tmp_path / "keys")
    tls.make(tmp_path / "other")
    log = tmp_path / "log"
    argv = [sys.executable, "-m", "ci.informer.cli", "scheduler", "127.0.0.1:0", "--tls", str(tmp_path / "keys")]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=out, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"})

    def lines():
        return log.read_text().splitlines()

    try:
        wait_until(lambda: len(lines()) > 0, 60, "the scheduler", lines, poll=0.05)
        address = ("127.0.0.1", int(lines()[0].rpartition(":")[2]))
        socket.create_connection(address).close()
        with socket.create_connection(address) as reset:
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        _stranger(address, tmp_path / "other")
        wait_until(lambda: len(lines()) > 1, 60, "word of the stranger", lines, poll=0.05)
    finally:
        process.terminate()
        process.wait(60)
    # Tornado, which Dask speaks through, says it as well.
    assert ["certificate" in line for line in lines()] == [False, *[True] * (len(lines()) - 1)], lines()
