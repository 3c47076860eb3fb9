import pytest

from installer.hub.baremetal.address import Address, AddressError, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1", ("https://192.0.2.1", "/redfish/v1/Systems/1")),
        ("redfish-virtualmedia+http://[2001:db8::1]:8000/redfish/v1/", ("http://[2001:db8::1]:8000", "")),
        ("idrac-virtualmedia+https://bmc.example/redfish/v1/Systems/System.Embedded.1/",
         ("https://bmc.example", "/redfish/v1/Systems/System.Embedded.1")),
        ("ilo5-virtualmedia://bmc", ("https://bmc", "")),
        ("redfish:192.0.2.1", ("https://192.0.2.1", "")),
    ],
)  # fmt: skip
def test_addresses(text, expected):
    assert parse(text) == Address(text.partition(":")[0].partition("+")[0], *expected)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ipmi://192.0.2.1", "ipmi: IPMI has no virtual media"),
        ("libvirt://192.0.2.1", "libvirt: "),
        ("redfish-uefihttp://192.0.2.1", "redfish-uefihttp: UEFI HTTP boot"),
        ("192.0.2.1", "without a scheme is IPMI's"),
        ("bmc.example:623", "without a scheme is IPMI's"),
        ("irmc://192.0.2.1", "unknown BMC type 'irmc'"),
        ("redfish+ftp://192.0.2.1", "unknown BMC type 'redfish+ftp'"),
        ("redfish://under_score", "'under_score' is no host name"),
        ("redfish://[::1", "no address of a BMC"),
        ("redfish://bmc:port", "no address of a BMC"),
        ("redfish://admin:hidden@192.0.2.1", "holds a login"),
        ("redfish://", "'' is no host name"),
    ],
)
def test_addresses_that_are_refused(text, reason):
    with pytest.raises(AddressError, match=r"^.+$") as caught:
        parse(text)
    assert reason in str(caught.value)
    assert "hidden" not in str(caught.value)
