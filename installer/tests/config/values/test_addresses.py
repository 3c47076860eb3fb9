"""URLs, BMC addresses, keys and secrets, as Go's and metal3's readers take them."""

import base64
import json

import pytest

from installer.config.values import bmc, check, urls

URLS = {
    "http://a": ("http", "a", ""),
    "HTTP://A:80/x?y#z": ("http", "A", "80"),
    "http://u:p%40@h:1/": ("http", "h", "1"),
    "http://[fd00::1]:3128": ("http", "fd00::1", "3128"),
    "http://[fe80::1%25eth0]/": ("http", "fe80::1%25eth0", ""),
    "http://fd01::1": ("http", "fd01:", "1"),
    "redfish+https://1.2.3.4:99999/x": ("redfish+https", "1.2.3.4", "99999"),
    "mailto:x": ("mailto", "", ""),
    "//host/path": ("", "host", ""),
    "a/b": ("", "", ""),
    "http://a%C3%A4": ("http", "a%C3%A4", ""),
}


@pytest.mark.parametrize("value", URLS)
def test_parts_of_a_url(value):
    url = urls.parse(value)
    assert (url.scheme, url.host, url.port) == URLS[value]


NO_URLS = {
    "http://a%": 'invalid URL escape "%"',
    "http://%41": 'invalid URL escape "%41"',
    "http://u:%zz@a": "invalid URL escape",
    "http://a/%zz": 'invalid URL escape "%zz"',
    "http://a#%zz": 'invalid URL escape "%zz"',
    " redfish+https://a": "first path segment in URL cannot contain colon",
    "http://a\n": "net/url: invalid control character in URL",
    ":x": "missing protocol scheme",
    "http://a b": 'invalid character " " in host name',
    "http://a:x": 'invalid port ":x" after host',
    "http://[::1": "missing ']' in host",
    "http://[1.2.3.4]": "invalid IP-literal",
    "http://a[::1]": "invalid IP-literal",
    "http://[::1]x": 'invalid port "x" after host',
    "http://u^@a": "net/url: invalid userinfo",
}


@pytest.mark.parametrize("value", NO_URLS)
def test_invalid_urls(value):
    with pytest.raises(ValueError, match=r"^") as caught:
        urls.parse(value)
    assert str(caught.value) == NO_URLS[value]


def test_a_request_needs_a_scheme_or_a_path():
    assert urls.parse("/a", request=True).path == "/a"
    for value, text in (("", "empty url"), ("a", "invalid URI for request")):
        with pytest.raises(ValueError, match=text):
            urls.parse(value, request=True)


DRIVERS = {
    "redfish-virtualmedia+https://[fd00::1]:8000/redfish/v1/Systems/1": ("redfish", False),
    "REDFISH-virtualmedia://1.2.3.4": ("redfish", False),
    "redfish-virtualmedia:": ("redfish", False),
    "idrac-virtualmedia+http://h": ("idrac", False),
    "ilo4-virtualmedia://x": ("ilo", False),
    "ilo5-redfish://x": ("redfish", True),
    "1.2.3.4": ("ipmi", True),
    "1.2.3.4:623": ("ipmi", True),
    "libvirt://192.168.1.1:6233?domain=x": ("ipmi", True),
}


@pytest.mark.parametrize("address", DRIVERS)
def test_the_driver_of_a_bmc(address):
    driver = bmc.driver(address)
    assert (driver.name, driver.network) == DRIVERS[address]


NO_DRIVERS = {
    "": "missing BMC address",
    "http://1.2.3.4": "Unknown BMC type 'http' for address http://1.2.3.4",
    "redfish-virtualmedia+x://1.2.3.4": "Unknown BMC type 'redfish-virtualmedia+x'",
    "irmc+https://u:secret@h": "Unknown BMC type 'irmc+https' for address irmc+https://u:[redacted]@h",
    "redfish-virtualmedia://a b": "BMC address hostname/IP : [redfish-virtualmedia://a b] is invalid",
    "redfish://a_b": "BMC address hostname/IP : [a_b] is invalid",
    "fd00::1": "Unknown BMC type 'fd00' for address fd00::1",
    "[fd00::1": "failed to parse BMC address information: parse",
}


@pytest.mark.parametrize("address", NO_DRIVERS)
def test_invalid_bmc_addresses(address):
    with pytest.raises(ValueError, match=r"^") as caught:
        bmc.driver(address)
    assert NO_DRIVERS[address] in str(caught.value)
    assert "secret" not in str(caught.value)


def _ed25519() -> str:
    kind = b"ssh-ed25519"
    return base64.b64encode(len(kind).to_bytes(4, "big") + kind + (32).to_bytes(4, "big") + b"\7" * 32).decode()


KEY = _ed25519()


@pytest.mark.parametrize(
    "line",
    [
        f"ssh-ed25519 {KEY} me",
        f"rsa {KEY}",
        f"SSH-ED25519\t{KEY}",
        f'no-pty,command="a b" ssh-ed25519 {KEY} me',
        f"# a comment\nssh-ed25519 {KEY}",
    ],
)
def test_the_type_of_an_ssh_key_is_read_from_the_key(line):
    assert check.ssh_key(line) is None
    assert check.ssh_key_type(line) == "ssh-ed25519"


@pytest.mark.parametrize(
    "line", [KEY, "ssh-ed25519", f"@cert-authority * ssh-ed25519 {KEY}", f"ssh-ed25519 {KEY[:-4]}", f"#x {KEY}", "a b"]
)
def test_lines_without_an_ssh_key(line):
    assert check.ssh_key(line) == "ssh: no key found"


AUTH = json.dumps({"auth": "dTpw"})


@pytest.mark.parametrize(
    "text",
    [
        f'{{"auths":{{"a":{AUTH}}},"auths":{{}}}}',
        f'{{"auths":{{}},"Auths":{{"a":{AUTH}}}}}',
        '{"auths":{"a":{"auth":"x","more":1e300}}}',
    ],
)
def test_all_auths_of_a_pull_secret_count(text):
    assert check.pull_secret(text) is None


@pytest.mark.parametrize("number", ["NaN", "1e400", "-Infinity"])
def test_numbers_that_are_not_json(number):
    assert "must be JSON" in (check.pull_secret(f'{{"auths":{{"a":{{"auth":"x","more":{number}}}}}}}') or "")


def test_an_ipv4_address_within_ipv6_is_one_of_ipv4():
    assert str(check.address("::ffff:192.168.111.5")) == "192.168.111.5"
    assert str(check.network("::ffff:10.0.0.0/104")) == "10.0.0.0/8"
    assert check.address("fe80::1%eth0") is None
