from types import SimpleNamespace

from installer.hub.baremetal.hardware import from_inventory, from_redfish, nics_of


def test_nics_that_the_api_does_not_take_are_left_out():
    macs = dict.fromkeys(["00-00-5E-00-53-01", "00005e005302", "", "none", "00:00:00:00:fe:80:00:00"])
    system = SimpleNamespace(ethernet_interfaces=SimpleNamespace(summary=macs))
    assert nics_of(system) == [{"mac": "00:00:5e:00:53:01"}, {"mac": "00:00:5e:00:53:02"}]


def test_values_of_types_that_the_api_does_not_take_are_left_out():
    drive = SimpleNamespace(
        json={}, name={"a": 1}, model=7, manufacturer="x" * 1000, serial_number=[1], capacity_bytes="big"
    )
    system = SimpleNamespace(
        json={"Model": 7}, manufacturer=float("inf"), serial_number={"a": 1}, bios_version=[1],
        memory_summary=None, processors=SimpleNamespace(summary=SimpleNamespace(architecture=None, count=1.5)),
        ethernet_interfaces=SimpleNamespace(summary={}),
        storage=SimpleNamespace(get_members=lambda: [SimpleNamespace(drives=[drive])]),
    )  # fmt: skip
    assert from_redfish(system) == {
        "systemVendor": {"productName": "7"},
        "storage": [{"model": "7", "vendor": "x" * 256}],
    }


def test_the_hardware_of_an_inventory():
    inventory = {
        "hostname": "a",
        "memory": {"physicalBytes": 16 << 30}, "systemVendor": {"manufacturer": "", "productName": "X"},
        "cpu": {"architecture": "x86_64", "count": 4, "flags": []},
        "interfaces": [
            {"name": "e0", "macAddress": "00:00:5e:00:53:01", "speedMbps": 10000, "ipV4Addresses": ["192.0.2.1/24"],
             "ipV6Addresses": ["2001:db8::1/64"]},
            {"name": "e1", "macAddress": "00:00:5e:00:53:02"},
        ],
        "disks": [
            {"path": "/dev/sda", "byPath": "/dev/disk/by-path/1", "sizeBytes": 5, "driveType": "HDD", "serial": "S"}
        ],
    }  # fmt: skip
    assert from_inventory(inventory, "b") == {
        "hostname": "b", "ramMebibytes": 16384, "systemVendor": {"productName": "X"},
        "cpu": {"arch": "x86_64", "count": 4},
        "nics": [
            {"name": "e0", "mac": "00:00:5e:00:53:01", "speedGbps": 10, "ip": "2001:db8::1"},
            {"name": "e0", "mac": "00:00:5e:00:53:01", "speedGbps": 10, "ip": "192.0.2.1"},
            {"name": "e1", "mac": "00:00:5e:00:53:02"},
        ],
        "storage": [{"name": "/dev/disk/by-path/1", "sizeBytes": 5, "rotational": True, "serialNumber": "S"}],
    }  # fmt: skip
