"""The page as users see it: in a real Chromium, over TLS, fed by the real service with synthetic hosts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers.browser import PROGRAM, Page, chromium
from installer.common.macs import ExpectedHost, listed
from installer.testing.engine.fleet_kit import Machine
from installer.testing.service.rendezvous_kit import Running, running, wait_for
from installer.testing.service.service_kit import INSTALLER
from installer.testing.service.single_kit import World
from lab.testing.axe_kit import complaints

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium-headless-shell"),
]
EVIL = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
LIVE = "document.getElementById('connection').textContent === 'Live'"
TEXT = "document.body.innerText"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("page")
    binary = folder / "openshift-install"
    binary.write_text(INSTALLER)
    binary.chmod(0o755)
    hosts = (ExpectedHost("lost", ("52:54:00:00:01:09",)), ExpectedHost("host-0", ("52:54:00:00:01:00",)))
    expected = folder / "expected-hosts"
    expected.write_text(listed(hosts))
    settings = {"INSTALLER_BINARY": str(binary), "EXPECTED_HOSTS_FILE": str(expected)}
    with running(folder, PAGE_ACCESS="open", **settings) as live:
        yield live


@pytest.fixture(scope="module")
def page(service: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    certificate = (service.directory / "tls/service.crt").read_bytes()
    with chromium(tmp_path_factory.mktemp("browser") / "profile", certificate) as tab:
        yield tab


def test_an_installation_to_watch(service: Running, page: Page, tmp_path: Path) -> None:
    world = World(service)
    cluster, infra_env = world.cluster("ostest")
    _, other_env = world.cluster("hostile")
    good, bad = Machine(0, world.network), Machine(1, world.network, hostname=EVIL, cpus=0)
    bad.inventory["system_vendor"]["manufacturer"] = EVIL

    page.open(service.url)
    page.until(LIVE)
    # Who is expected and has never come is there from the start, in the configuration's order.
    cards = "[...document.querySelectorAll('#hosts h3')].map(h => h.textContent)"
    assert page.js(cards) == ["lost", "host-0"]
    assert page.js(TEXT).count("expected: has never been seen here") == 2
    assert page.js("document.querySelectorAll('#clusters article').length") == 2
    assert page.js("document.getElementById('log').getAttribute('aria-live')") == "polite"

    # Live: hosts come, without a reload.
    for env, machine in ((infra_env, good), (other_env, bad)):
        world.register(env, machine)
        world.poll(env, machine)
    page.until("document.querySelectorAll('#hosts article').length === 3")
    page.until("document.querySelectorAll('#hosts .expected').length === 1")
    assert page.js(cards) == ["lost", "host-0", EVIL]
    assert "registered with 52:54:00:00:01:01, one digit differs" in page.js(
        "document.querySelector('.expected').innerText"
    )
    page.until(f"{TEXT}.includes('host-0') && {TEXT}.includes('Successfully registered')")
    wait_for("the cluster to be ready", lambda: world.poll(infra_env, good) or world.status(cluster) == "ready")
    page.until("document.querySelector('#clusters .status').textContent === 'ready'")
    text = page.js(TEXT)
    assert "Cluster ostest.test.node0.example" in text
    assert text.count(EVIL) >= 2  # its name and the verdict on it
    assert page.js("document.querySelectorAll('img, article script, li script').length") == 0
    assert page.js("document.title") == "2 clusters - node0"
    page.js("document.querySelectorAll('details').forEach(d => { d.open = true })")
    for piece in ("QEMU Standard PC", "/dev/vda, 20 GB, HDD, installed on", "52:54:00:00:01:00, 192.168.111.80/24"):
        assert piece in page.js(TEXT)
    assert f"{EVIL} Standard PC" in page.js(TEXT)
    assert complaints(page) == []
    page.call("Emulation.clearDeviceMetricsOverride")
    page.js("document.querySelectorAll('details').forEach(d => { d.open = false })")

    # By keyboard: in reading order, nothing left out, and the focus survives what comes in.
    page.js("document.activeElement.blur(); scrollTo(0, 0)")
    order = [page.tab() for _ in range(11)]
    assert order[0] == "Skip to the content"
    assert order[1:4] == ["token", "Use this token", "forget"]
    assert [name.split(":")[0] for name in order[4:6]] == ["Validations of the cluster"] * 2
    assert order[6].endswith("hold, host-0")
    assert order[7] == "Inventory of host-0"
    assert order[10] == "severity"
    page.js("document.querySelector('#hosts details:nth-of-type(2) summary').focus()")
    page.press("Enter", 13, "\r")
    assert page.js("document.activeElement.parentElement.open") is True
    service.client().call("POST", f"/clusters/{cluster}/actions/install")
    wait_for("an installation", lambda: world.poll(infra_env, good) or world.status(cluster) == "installing", 120)
    world.progress(infra_env, good, "Writing image to disk", "42%")
    # Since when: a stage at which nothing is said any more is seen by that alone.
    stage = r"/^Writing image to disk \(since \d+:\d\d:\d\d.*\): 42%$/"
    page.until(f"{stage}.test(document.querySelector('[aria-current=step]')?.textContent)")
    assert page.js("document.querySelectorAll('#hosts .done').length") == 3
    assert page.js("document.activeElement.parentElement.open && document.activeElement.textContent") == (
        "Inventory of host-0"
    )
    assert page.js("document.querySelector('#hosts progress').value") == 50

    # Only what is serious
    rows = "[...document.querySelectorAll('#events li')].filter(li => li.checkVisibility()).length"
    every = page.js(rows)
    page.js("const s = document.getElementById('severity'); s.value = 'serious'; s.dispatchEvent(new Event('change'))")
    assert 0 <= page.js(rows) < every

    assert page.picture(Path(os.environ.get("NODE0_PAGE_PICTURE", tmp_path / "page.png")))[:4] == b"\x89PNG"
    # A killed service: the page says so, and goes on by itself.
    service.kill()
    page.until("document.getElementById('connection').textContent.startsWith('Not connected: the service ')")
    assert page.js("document.title").startswith("Not connected - ")
    assert "What is below is as it was at" in page.js(TEXT)
    assert page.js("document.getElementById('away').checkVisibility()")
    assert complaints(page) == []
    page.call("Emulation.clearDeviceMetricsOverride")
    service.start()
    page.until(LIVE)
    assert page.js("document.title") == "2 clusters - node0"
    assert page.js("document.querySelectorAll('#hosts article').length") == 3
    assert page.js("document.querySelectorAll('#clusters article').length") == 2
    # All of it was sent again, and nothing is there twice.
    assert page.js("document.body.textContent").count("Successfully registered cluster ostest") == 1
    service.client().call("DELETE", f"/infra-envs/{other_env}/hosts/{bad.id}")
    service.client().call("DELETE", f"/infra-envs/{other_env}")
    page.until("document.querySelectorAll('#hosts article').length === 2")

    # Secrets want a token: the user's for the kubeconfig, and none is taken for granted.
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
    button = "[...document.querySelectorAll('button')].find(b => b.checkVisibility() && b.textContent === '{}')"
    kubeconfig = button.format("Download kubeconfig")
    page.js(f"{kubeconfig}.click()")
    page.until("document.getElementById('problem').textContent === 'A token is needed to download kubeconfig.'")
    assert page.js("document.activeElement.id") == "token"

    def use(token: str) -> None:
        page.js("document.getElementById('token').focus()")
        page.call("Input.insertText", text=token)
        page.press("Enter", 13, "\r")
        page.until("document.getElementById('token').value === ''")

    use(service.keys.token("watcherAuth"))
    page.until(LIVE)
    page.js(f"{kubeconfig}.click()")
    page.until("document.getElementById('problem').textContent.includes('may not download kubeconfig')")
    use(service.keys.token("userAuth"))
    page.until(LIVE)
    page.js(f"{kubeconfig}.click()")
    downloaded = downloads / "kubeconfig"
    wait_for("the kubeconfig", lambda: downloaded.is_file() and downloaded.read_text() == "clusters: []")
    # The network errors are those that this test caused.
    expected = ("401", "net::ERR_", "Failed to load resource")
    assert [text for text in page.complaints if not any(part in text for part in expected)] == []


def test_the_page_can_want_a_token(service: Running, page: Page) -> None:
    service.kill()
    service.env["PAGE_ACCESS"] = "token"
    service.start()
    page.open(service.url)
    page.js("sessionStorage.clear()")
    page.open(service.url)
    page.until("document.getElementById('problem').textContent === 'A token is needed to look at this service.'")
    assert page.js("document.getElementById('connection').textContent") == "Not connected: a token is needed."
    assert page.js("document.getElementById('token-form').hidden") is False
    assert page.js("document.querySelectorAll('article').length") == 0
    page.js("document.getElementById('token').focus()")
    page.call("Input.insertText", text=service.keys.token("agentAuth"))
    page.press("Enter", 13, "\r")
    page.until("document.getElementById('token').value === ''")
    page.until(
        "document.getElementById('connection').textContent === 'Not connected: the service does not take this token.'"
    )
    assert "node0.watcherToken in .openshift_install_state.json" in page.js(TEXT)
    page.call("Input.insertText", text=service.keys.token("watcherAuth"))
    page.press("Enter", 13, "\r")
    page.until(LIVE)
    page.until("document.querySelectorAll('#clusters article').length === 2")
    assert complaints(page, least=15) == []
