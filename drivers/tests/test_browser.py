"""The browser's driver, on pages that need no server."""

import subprocess
import sys
from pathlib import Path

import pytest

from drivers.browser import PROGRAM, chromium, spki
from drivers.errors import BrowserError

ROOT = Path(__file__).parents[2]
PAGE = "data:text/html,<title>here</title><p>some <b>text</b></p>"

needs_chromium = pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium-headless-shell")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    argv += ["-subj", "/CN=x", "-keyout", str(folder / "key"), "-out", str(folder / "crt")]
    subprocess.run(argv, check=True, capture_output=True)
    return (folder / "crt").read_bytes()


def test_the_hash_is_openssls(certificate):
    steps = "openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64"
    completed = subprocess.run(["sh", "-c", steps], input=certificate, capture_output=True, check=True)
    assert spki(certificate) == completed.stdout.decode().strip()


@needs_chromium
def test_a_page_is_read_waited_for_and_pictured(certificate, tmp_path):
    with chromium(tmp_path / "profile", certificate, ["env", "A=b"]) as page:
        page.open(PAGE)
        assert page.text() == "some text"
        page.js("setTimeout(() => { document.title = 'there' }, 200)")
        page.until("document.title === 'there'")
        assert page.picture(tmp_path / "page.png")[:4] == b"\x89PNG"
        assert page.complaints == []
        with pytest.raises(BrowserError, match=r"not within 0\.2 s: false\nsome text"):
            page.until("false", 0.2)
        with pytest.raises(BrowserError, match="nowhere"):
            page.js("nowhere.to.be.found")


@needs_chromium
def test_a_page_opens_whichever_descriptors_are_free(certificate, tmp_path):
    """A process with none open but the first three."""
    (tmp_path / "crt").write_bytes(certificate)
    text = (
        "from pathlib import Path; from drivers.browser import chromium\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "with chromium(folder / 'profile', (folder / 'crt').read_bytes()) as page:\n"
        "    print(page.js('1 + 1'))\n"
    )
    argv = [sys.executable, "-c", text]
    completed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert completed.stdout == "2\n", completed.stderr
