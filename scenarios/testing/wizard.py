"""The service's page as a person uses it to install: the steps of its wizard, by labels and buttons alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

from drivers.browser import Page

LIVE = "document.getElementById('connection')?.textContent === 'Live'"
STEP_SECONDS = 60.0
#: Fields that are lists to choose from; all others are typed.
CHOSEN = frozenset(
    {
        *("OpenShift version", "CPU architecture", "Control plane nodes", "Platform", "Hosts come from"),
        *("Discovery image", "Role", "Installation disk", "Load balancer", "Image", "Folder"),
    }
)
#: Fields that are folded away at first.
FOLDED = frozenset(
    {"HTTP proxy", "HTTPS proxy", "No proxy for", "NTP sources", "Mirrors of images", "Additional trust bundle"}
)


def sign_in(page: Page, token: str) -> None:
    """Give the page a token, and wait until it is live. Raises BrowserError."""
    page.fill("Token", token)
    page.push("Use this token")
    page.until(LIVE, STEP_SECONDS)


def fill(page: Page, values: Mapping[str, str]) -> None:
    """Fill in a form by its labels. Raises BrowserError for one that is not there."""
    for label, value in values.items():
        (page.choose if label in CHOSEN else page.fill)(label, value)


def create_cluster(page: Page, values: Mapping[str, str]) -> str:
    """Create a cluster with these values, by the labels of the form; returns its id. Raises BrowserError."""
    page.push("Create a cluster", "link")
    if FOLDED & values.keys():
        page.push("Proxy, time, mirrors", "summary")
    fill(page, values)
    page.push("Create cluster")
    return str(page.until("location.hash.startsWith('#/clusters/') && location.hash.split('/')[2]", STEP_SECONDS))


def go_to(page: Page, step: str) -> None:
    """Go to a step of the cluster that is open, by its title. Raises BrowserError."""
    page.push(step, "link")
    page.until(f"document.getElementById('step-title')?.textContent === {json.dumps(step)}", STEP_SECONDS)


def wait_for_hosts(page: Page, count: int, seconds: float) -> None:
    """Wait at the step Hosts until so many hosts can be installed. Raises BrowserError."""
    go_to(page, "Hosts")
    page.until(f"document.getElementById('main').innerText.includes('registered, {count} can be installed')", seconds)


def save(page: Page, values: Mapping[str, str], seconds: float = STEP_SECONDS) -> None:
    """Fill in the form that is open and save it, once that is possible. Raises BrowserError when the service does not
    take it."""
    fill(page, values)
    buttons = "[...document.querySelectorAll('button[type=submit]')]"
    page.until(f"{buttons}.some(item => item.textContent === 'Save' && !item.disabled)", seconds)
    page.push("Save")
    page.until("[...document.querySelectorAll('.notice.good')].some(item => item.textContent.startsWith('Saved'))")


def save_at(page: Page, step: str, values: Mapping[str, str]) -> None:
    """Go to a step, fill in its form and save it. Raises BrowserError."""
    go_to(page, step)
    save(page, values)


def install(page: Page, seconds: float = STEP_SECONDS) -> None:
    """Start the installation from the step Review, once nothing prevents it. Raises BrowserError."""
    go_to(page, "Review")
    page.until("document.getElementById('install') && !document.getElementById('install').disabled", seconds)
    page.push("Install cluster")
    page.until("location.hash.endsWith('/progress')", STEP_SECONDS)


def wait_until_installed(page: Page, seconds: float) -> None:
    """Wait at the step Progress until the cluster is installed. Raises BrowserError."""
    page.until("document.querySelector('.notice.good')?.textContent === 'The cluster is installed.'", seconds)
