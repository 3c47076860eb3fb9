"""The disk that is cleaned and written: command lines of programs that really run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.orchestrator import disk
from installer.orchestrator.errors import StageError
from installer.testing.orchestrator_kit import Site

BARS = "for p in 4 5 9 10 99 100 100; do printf '> Read disk 1 MiB/2 MiB (%s%%)   \\r' $p >&2; done\n"
# pvs of LVM 2.03.16, with two volume groups of one name and one on two disks.
DATA, OLD, TWENTY = (
    "cDkQLh-LHN3-58og-IeFs-iE7T-yvoT-rRIxEn",
    "wW54by-tPhi-AuFb-BY68-iYv3-uhy9-Aq5smS",
    "Rt74KO-0xUo-a1g9-MHwU-oRmO-MIR9-0GSxID",
)
TWINS = f"  /dev/loop0 {DATA} data\n  /dev/loop1 {OLD} data\n  /dev/loop2 {TWENTY} span\n"
SPAN = f"  /dev/loop0 {DATA} data\n  /dev/loop1 {TWENTY} span\n  /dev/loop2 {TWENTY} span\n"


def tree(*nodes: dict[str, Any]) -> str:
    return json.dumps({"blockdevices": list(nodes)})


def node(name: str, kind: str = "disk", fstype: str | None = None, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "type": kind, "fstype": fstype, **({"children": list(children)} if children else {})}


def cleaners(site: Site) -> None:
    for name in ("vgremove", "pvremove", "mdadm", "wipefs"):
        site.programs.add(name)


def clean(site: Site, lsblk: str, pvs: str = "") -> tuple[list[str], list[str]]:
    """Return the reports, and the command lines that change something."""
    cleaners(site)
    site.programs.says("lsblk", lsblk)
    site.programs.says("pvs", pvs)
    failures = disk.clean(site.host, "/dev/vda")
    assert site.timeline.argv("lsblk") == [["-J", "-p", "-o", "NAME,TYPE,FSTYPE", "/dev/vda"]]
    return failures, [line for line in site.timeline.programs() if not line.startswith(("lsblk", "pvs"))]


def test_an_empty_disk_loses_its_signatures_only(site: Site) -> None:
    assert clean(site, tree(node("/dev/vda"))) == ([], ["wipefs --all --force /dev/vda"])


@pytest.mark.parametrize("lsblk", ["", "{}", '{"blockdevices": null}'])
def test_a_disk_that_lsblk_does_not_describe(site: Site, lsblk: str) -> None:
    assert clean(site, lsblk) == ([], ["wipefs --all --force /dev/vda"])


def test_volume_groups_of_other_disks_stay(site: Site) -> None:
    lsblk = tree(
        node(
            "/dev/vda",
            "disk",
            None,
            node("/dev/vda1", "part", "vfat"),
            node("/dev/vda2", "part", "LVM2_member", node("/dev/mapper/old-root", "lvm", "xfs")),
            node("/dev/vda3", "part", "LVM2_member"),
        )
    )
    pvs = (
        f"  /dev/vdb   {DATA} data  \n  /dev/vda2  {OLD} old   \n  /dev/vda20 {TWENTY} twenty\n"
        "  /dev/vda3                                                \n  /dev/vdc\n"
    )
    failures, ran = clean(site, lsblk, pvs)
    assert failures == []
    assert ran == [
        f"vgremove --select vg_uuid={OLD} -y --force",
        "pvremove /dev/vda2 -y -ff",
        "pvremove /dev/vda3 -y -ff",
        "wipefs --all --force /dev/vda",
    ]
    assert site.timeline.argv("pvs") == [["--noheadings", "-o", "pv_name,vg_uuid,vg_name"]]


def test_of_two_volume_groups_with_one_name_only_this_disks_is_removed(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """By name LVM removes neither: "Multiple VGs found with the same name", exit code 5."""
    failures, ran = clean(site, tree(node("/dev/loop1", "disk", "LVM2_member")), TWINS)
    assert failures == []
    assert ran[:2] == [f"vgremove --select vg_uuid={OLD} -y --force", "pvremove /dev/loop1 -y -ff"]
    assert DATA not in " ".join(ran)
    assert not caplog.records


@pytest.mark.parametrize(("disk_name", "other"), [("/dev/loop1", "/dev/loop2"), ("/dev/loop2", "/dev/loop1")])
def test_a_volume_group_on_two_disks_is_removed_and_the_other_disk_named(
    site: Site, caplog: pytest.LogCaptureFixture, disk_name: str, other: str
) -> None:
    failures, ran = clean(site, tree(node(disk_name, "disk", "LVM2_member")), SPAN)
    assert failures == []
    assert ran[:2] == [f"vgremove --select vg_uuid={TWENTY} -y --force", f"pvremove {disk_name} -y -ff"]
    assert caplog.messages == [f"volume group span is removed as a whole, so its data is lost on {other} too"]


def test_a_volume_group_on_two_partitions_of_this_disk_is_removed_once(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    parts = [node(f"/dev/loop{number}", "part", "LVM2_member") for number in (1, 2)]
    _, ran = clean(site, tree(node("/dev/vda", "disk", None, *parts)), SPAN)
    assert [line for line in ran if line.startswith("vgremove")] == [f"vgremove --select vg_uuid={TWENTY} -y --force"]
    assert not caplog.records


def test_without_volume_groups_on_it_nobody_asks_for_them(site: Site) -> None:
    clean(site, tree(node("/dev/vda", "disk", None, node("/dev/vda1", "part", "ext4"))), "  /dev/vdb data\n")
    assert site.timeline.argv("pvs") == []


def test_arrays_are_stopped_before_their_members_on_this_disk_are_cleared(site: Site) -> None:
    lsblk = tree(
        node(
            "/dev/vda",
            "disk",
            None,
            node("/dev/vda1", "part", "linux_raid_member", node("/dev/md1", "raid1", "ext4")),
            node("/dev/vda2", "part", "linux_raid_member", node("/dev/md0", "raid0", None)),
        )
    )
    assert clean(site, lsblk) == (
        [],
        [
            "mdadm --stop /dev/md0",
            "mdadm --stop /dev/md1",
            "mdadm --zero-superblock /dev/vda1",
            "mdadm --zero-superblock /dev/vda2",
            "wipefs --all --force /dev/vda",
        ],
    )


def test_a_volume_group_on_an_array_goes_before_the_array(site: Site) -> None:
    array = node("/dev/md0", "raid1", "LVM2_member", node("/dev/mapper/vg-a", "lvm", None))
    failures, ran = clean(site, tree(node("/dev/vda", "disk", "linux_raid_member", array)), f"  /dev/md0 {OLD} vg\n")
    assert failures == []
    assert ran == [
        f"vgremove --select vg_uuid={OLD} -y --force",
        "pvremove /dev/md0 -y -ff",
        "mdadm --stop /dev/md0",
        "mdadm --zero-superblock /dev/vda",
        "wipefs --all --force /dev/vda",
    ]


def test_what_cannot_be_cleaned_is_told_and_the_rest_is_cleaned(site: Site) -> None:
    cleaners(site)
    site.programs.says("lsblk", tree(node("/dev/vda", "disk", "LVM2_member")))
    site.programs.says("pvs", f"  /dev/vda {OLD} vg\n")
    site.programs.fails("vgremove", "vg is in use", 5)
    site.programs.fails("wipefs", "probing failed")
    failures = disk.clean(site.host, "/dev/vda")
    assert failures == [
        f"vgremove --select vg_uuid={OLD}: exit code 5: vg is in use",
        "wipefs --all --force: exit code 1: probing failed",
    ]
    assert site.timeline.argv("pvremove") == [["/dev/vda", "-y", "-ff"]]


def test_a_failing_list_of_volumes_is_told_and_the_rest_is_cleaned(site: Site) -> None:
    cleaners(site)
    site.programs.says("lsblk", tree(node("/dev/vda", "disk", "LVM2_member")))
    site.programs.fails("pvs", "no lvm here", 5)
    assert disk.clean(site.host, "/dev/vda") == ["pvs --noheadings -o: exit code 5: no lvm here"]
    assert site.timeline.programs()[-2:] == ["pvremove /dev/vda -y -ff", "wipefs --all --force /dev/vda"]


def test_a_disk_that_is_not_there_is_told_and_left_alone(site: Site) -> None:
    cleaners(site)
    site.programs.fails("lsblk", "not a block device", 32)
    assert disk.clean(site.host, "/dev/vda") == ["lsblk -J -p: exit code 32: not a block device"]
    assert site.timeline.programs() == ["lsblk -J -p -o NAME,TYPE,FSTYPE /dev/vda"]


def test_quick_format_names_its_disk(site: Site) -> None:
    site.programs.add("wipefs")
    site.programs.add("dd")
    disk.quick_format(site.host, "/dev/vdb")
    assert site.timeline.programs() == [
        "wipefs --all --force /dev/vdb",
        "dd if=/dev/zero of=/dev/vdb bs=512 count=1 oflag=direct",
    ]


def test_a_link_of_udev_is_followed_to_the_device(site: Site, tmp_path: Path) -> None:
    (tmp_path / "vdc").touch()
    (tmp_path / "by-id").symlink_to("vdc")
    # The machine's own program, as on a host.
    assert disk.resolve(site.host, str(tmp_path / "by-id")) == str((tmp_path / "vdc").resolve())
    assert disk.resolve(site.host, str(tmp_path / "absent")) == str(tmp_path / "absent")
    site.programs.says("realpath", "\n")
    assert disk.resolve(site.host, "/dev/vda") == "/dev/vda"


def test_the_image_is_written_to_the_chosen_disk_with_the_ignition(site: Site) -> None:
    site.programs.add("coreos-installer", BARS)
    seen: list[str] = []
    extra = ["--append-karg", "console=ttyS0 quiet", "--copy-network"]
    disk.write_image(site.host, Path("/opt/install-dir/x.ign"), "/dev/vdb", extra, report=seen.append)
    assert site.timeline.argv("coreos-installer") == [
        ["install", "--insecure", "-i", "/opt/install-dir/x.ign", *extra, "/dev/vdb"]
    ]
    assert seen == ["5%", "10%", "99%", "100%"]


def test_the_second_try_may_succeed_and_counts_from_the_start(site: Site, tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/tries; {BARS}[ $(wc -l < {tmp_path}/tries) = 2 ]\n"
    site.programs.add("coreos-installer", script)
    seen: list[str] = []
    disk.write_image(site.host, Path("/x.ign"), "/dev/vda", [], report=seen.append)
    assert seen == ["5%", "10%", "99%", "100%"] * 2


def test_three_tries_and_the_last_lines_of_the_error_without_the_progress_bar(site: Site) -> None:
    words = "for n in $(seq 14); do echo line $n; echo; done; "
    site.programs.add("coreos-installer", f"{words}{BARS}printf '\\n\\377no space' >&2; exit 3\n")
    with pytest.raises(StageError) as caught:
        disk.write_image(site.host, Path("/x.ign"), "/dev/vda", [], report=lambda text: None)
    lines = " | ".join(f"line {number}" for number in range(6, 15))
    wanted = (
        f"failed to write image to disk /dev/vda in 3 tries: exit code 3: {lines} | \N{REPLACEMENT CHARACTER}no space"
    )
    assert str(caught.value) == wanted
    assert len(site.timeline.argv("coreos-installer")) == 3


def test_programs_are_looked_for_where_the_host_has_them_and_speak_english(site: Site) -> None:
    site.programs.add("coreos-installer", "echo LC_ALL=$LC_ALL PATH=$PATH; exit 1\n")
    with pytest.raises(StageError, match=f"LC_ALL=C.UTF-8 PATH={site.programs.folder}:"):
        disk.write_image(site.host, Path("/x.ign"), "/dev/vda", [], report=lambda text: None)


def test_progress_in_the_last_words_of_all_is_reported(site: Site) -> None:
    site.programs.add("coreos-installer", "printf 'Read disk (100%%)'; exit 1\n")
    seen: list[str] = []
    with pytest.raises(StageError, match=r"exit code 1: $"):
        disk.write_image(site.host, Path("/x.ign"), "/dev/vda", [], report=seen.append)
    assert seen == ["100%"] * 3


def test_without_the_program(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "PATH", str(tmp_path))
    with pytest.raises(StageError, match=r"^coreos-installer: .*No such file"):
        disk.write_image(site.host, Path("/x.ign"), "/dev/vda", [], report=lambda text: None)


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ([0, 1, 4], []),
        ([5, 9, 10, 11], [5, 10]),
        ([4, 8, 12], [8]),
        ([97, 99, 100, 100], [97, 100]),
        ([250], [100]),
        ([100, 3], [100]),
    ],
)
def test_percentages(values: list[int], reported: list[int]) -> None:
    seen: list[str] = []
    percentages = disk.Percentages(seen.append)
    for value in values:
        percentages.feed(f"Read disk 27.0 MiB/157.0 MiB ({value}%)")
    assert seen == [f"{value}%" for value in reported]


@pytest.mark.parametrize(("text", "value"), [("", []), ("[]", []), ('["-a", "b c"]', ["-a", "b c"])])
def test_arguments_for_the_program(text: str, value: list[str]) -> None:
    assert disk.parse_args(text) == value


@pytest.mark.parametrize("text", ["[1]", '["a", 1]', '"a"', "{}", "-n", '{"a": "b"}'])
def test_arguments_that_are_none(text: str) -> None:
    with pytest.raises(StageError, match="--installer-args"):
        disk.parse_args(text)
