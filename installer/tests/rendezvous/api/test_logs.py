"""Logs that hosts send: whose, how many, and how they are read."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient
from msgspec.structs import replace

from installer.assisted.auth import Scheme
from installer.assisted.enums import StepType
from installer.assisted.errors import Conflict, NoSpace, TooLarge
from installer.rendezvous.store import logs as logstore
from installer.rendezvous.store.logs import LARGEST, LogStore, quota
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import UUID, filled, header, serve

KIND = {"Content-Type": "multipart/form-data; boundary=a"}
MIB = 1024**2


def form(content: bytes, name: str = "upfile") -> bytes:
    head = f'--a\r\nContent-Disposition: form-data; name="{name}"; filename="x"\r\n\r\n'
    return head.encode() + content + b"\r\n--a--\r\n"


async def send(client: TestClient, fleet: Fleet, query: str, body: bytes = form(b"abc")) -> ClientResponse:
    path = filled("/clusters/{cluster_id}/logs", fleet)
    return await client.post(f"{path}?{query}", data=io.BytesIO(body), headers={**KIND, **header(Scheme.AGENT)})


async def fetch(client: TestClient, fleet: Fleet, query: str) -> ClientResponse:
    return await client.get(f"{filled('/clusters/{cluster_id}/logs', fleet)}?{query}", headers=header(Scheme.USER))


def stored(directory: Path) -> list[Path]:
    return sorted(file for file in directory.rglob("logs/*/*") if file.is_file())


def test_only_hosts_of_the_cluster_send_logs(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        other_cluster, other_env = fleet.world.cluster(name="other")
        host = fleet.machines[0].id
        for query, status in (
            (f"logs_type=host&host_id={UUID}", 404),
            (f"logs_type=host&host_id={host}&infra_env_id={other_env}", 404),
            (f"logs_type=host&host_id={host}&infra_env_id=x", 400),
            ("logs_type=host&host_id=x", 400),
            ("logs_type=host&host_id=../../x", 400),
            ("logs_type=host", 400),
            ("", 400),
            ("logs_type=", 400),
            (f"logs_type=all&host_id={host}", 400),
            (f"logs_type=node-boot&host_id={host}", 400),
            (f"logs_type=Host&host_id={host}", 400),
        ):
            answer = await send(client, fleet, query)
            assert answer.status == status, (query, await answer.text())
        elsewhere = filled("/clusters/{cluster_id}/logs", fleet).replace(fleet.cluster_id, other_cluster)
        answer = await client.post(
            f"{elsewhere}?logs_type=host&host_id={host}", data=form(b"x"), headers={**KIND, **header(Scheme.AGENT)}
        )
        assert answer.status == 404
        assert not stored(tmp_path)
        for query in (f"host_id={host}", f"host_id={host.upper()}&infra_env_id={fleet.infra_env_id}"):
            assert (await send(client, fleet, f"logs_type=host&{query}")).status == 204
        assert [file.name for file in stored(tmp_path)] == [f"host_{host}.tar.gz"]
        assert fleet.host(fleet.machines[0]).logs_collected_at

    serve(tmp_path, use)


def test_each_kind_has_its_own_file(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        first, second = (machine.id for machine in fleet.machines[:2])
        sent = {f"host&host_id={first}": b"1", f"host&host_id={second}": b"2", "controller": b"3"}
        for query, content in sent.items():
            assert (await send(client, fleet, f"logs_type={query}", form(content))).status == 204
        for query, content in sent.items():
            assert await (await fetch(client, fleet, f"logs_type={query}")).read() == content
        # Later ones take the earlier one's place.
        assert (await send(client, fleet, "logs_type=controller", form(b"4"))).status == 204
        assert await (await fetch(client, fleet, "logs_type=controller")).read() == b"4"
        assert len(stored(tmp_path)) == 3
        for query, status in (
            (f"logs_type=node-boot&host_id={first}", 400),
            (f"logs_type=host&host_id={UUID}", 404),
            (f"logs_type=host&host_id={fleet.machines[2].id}", 409),
            ("logs_type=host", 400),
        ):
            assert (await fetch(client, fleet, query)).status == status

    serve(tmp_path, use)


def test_a_body_has_one_field(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        nested = (
            b"--a\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Disposition: form-data; "
            b'name="upfile"\r\n\r\nx\r\n--b--\r\n--a--\r\n'
        )
        twice = form(b"1").removesuffix(b"--a--\r\n") + form(b"2")
        cut, short = (
            form(b"abc").replace(b"\r\n\r\nabc", b"\r\nContent-Length: %d\r\n\r\nabc" % size) for size in (99, 2)
        )
        for body in (form(b"x", "other"), twice, nested, form(b"x")[:-8], b"", cut, cut + b"x" * 200, short):
            answer = await send(client, fleet, "logs_type=controller", body)
            assert answer.status == 400, body
        assert not stored(tmp_path)
        whole = form(b"abc").replace(b"\r\n\r\nabc", b"\r\nContent-Length: 3\r\n\r\nabc")
        assert (await send(client, fleet, "logs_type=controller", whole)).status == 204
        assert stored(tmp_path)[0].read_bytes() == b"abc"

    serve(tmp_path, use)


@pytest.mark.parametrize(
    ("free", "kept", "in_all", "each"),
    [
        (0, 0, 0, 0),
        (8 * MIB, 0, 4 * MIB, MIB),
        (0, 8 * MIB, 4 * MIB, MIB),
        (6 * MIB, 2 * MIB, 4 * MIB, MIB),
        (8 * LARGEST - 2, 0, 4 * LARGEST - 1, LARGEST - 1),
        (8 * LARGEST, 0, 4 * LARGEST, LARGEST),
        (100 * LARGEST, 0, 50 * LARGEST, LARGEST),
    ],
)
def test_logs_may_take_half_of_what_there_is(free: int, kept: int, in_all: int, each: int) -> None:
    assert quota(free, kept) == (in_all, each)


def test_no_file_and_not_all_together_are_larger_than_there_is_room_for(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        # A file system of 16 MiB with nothing else on it.
        def free(root: Path) -> int:
            return int(16 * MIB - service_logs(client).size)

        with mock.patch.object(service_logs(client), "free_bytes", free):
            hosts = [machine.id for machine in fleet.machines]
            answer = await send(client, fleet, f"logs_type=host&host_id={hosts[0]}", form(bytes(2 * MIB + 1)))
            assert (answer.status, (await answer.json())["reason"]) == (413, f"logs are larger than {2 * MIB} bytes")
            assert not stored(tmp_path)
            for query in (*(f"host&host_id={host}" for host in hosts), "controller"):
                answer = await send(client, fleet, f"logs_type={query}", form(bytes(2 * MIB - 1)))
                assert answer.status == 204
            # Newer ones take the place of older ones, not more.
            again = f"logs_type=host&host_id={hosts[0]}"
            assert (await send(client, fleet, again, form(bytes(2 * MIB - 1)))).status == 204
            with fleet.world.store.change():
                fleet.world.store.put_host(replace(fleet.host(fleet.machines[0]), id=UUID))
            answer = await send(client, fleet, f"logs_type=host&host_id={UUID}", form(bytes(5)))
            assert answer.status == 507
            assert "together are larger than 8388608 bytes" in (await answer.json())["reason"]
            assert (await send(client, fleet, f"logs_type=host&host_id={UUID}", form(bytes(4)))).status == 204
            assert sum(file.stat().st_size for file in stored(tmp_path)) == 8 * MIB
            assert not list(tmp_path.rglob("logs/*/.*"))

    serve(tmp_path, use)


def service_logs(client: TestClient) -> Any:
    from installer.rendezvous.api.app import SERVICE

    return client.app[SERVICE].logs


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        assert (await send(client, fleet, "logs_type=controller")).status == 204
        with mock.patch.object(logstore.Upload, "write", _full):
            answer = await send(client, fleet, "logs_type=controller", form(b"new"))
        assert (answer.status, (await answer.json())["reason"]) == (
            507,
            "logs cannot be kept: No space left on device",
        )
        # What was there stays.
        assert await (await fetch(client, fleet, "logs_type=controller")).read() == b"abc"
        assert len(stored(tmp_path)) == 1

    serve(tmp_path, use)


async def _full(self: logstore.Upload, data: bytes) -> None:
    with logstore.as_no_space(), Path("/dev/full").open("wb", buffering=0) as file:
        file.write(data)


def test_a_disk_that_hangs_under_logs_holds_up_no_agent(tmp_path: Path) -> None:
    """All threads that read and write wait for it, however many logs come: agents are answered without them."""

    async def use(client: TestClient, fleet: Fleet) -> None:
        back, loop = threading.Event(), asyncio.get_running_loop()
        held = [loop.run_in_executor(None, back.wait) for _ in range(64)]
        upload = asyncio.create_task(send(client, fleet, "logs_type=controller"))
        hosts, agent = filled("/infra-envs/{infra_env_id}/hosts", fleet), header(Scheme.AGENT)
        host = f"{hosts}/{fleet.machines[0].id}"
        reply = {"step_type": StepType.NTP, "step_id": "x", "exit_code": 0, "output": '{"ntp_sources": []}'}
        try:
            async with asyncio.timeout(60):
                for answer, status in (
                    (client.post(hosts, json={"host_id": UUID}, headers=agent), 201),
                    (client.get(f"{host}/instructions", headers=agent), 200),
                    (client.post(f"{host}/instructions", json=reply, headers=agent), 204),
                ):
                    assert (await answer).status == status
            assert not upload.done()
        finally:
            back.set()
        assert (await upload).status == 204
        await asyncio.gather(*held)

    serve(tmp_path, use)


def test_an_upload_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    logs = LogStore(tmp_path)

    async def cut_off() -> None:
        async with logs.upload(logs.path("c", None)) as upload:
            await upload.write(b"x" * 1000)
            raise ConnectionResetError

    async def use() -> None:
        with pytest.raises(ConnectionResetError):
            await cut_off()
        assert not list(tmp_path.rglob("*.gz"))
        assert not list(tmp_path.rglob("c/*"))
        assert logs.files("c") == []
        # Its place and its bytes are free again.
        async with logs.upload(logs.path("c", None)) as upload:
            await upload.write(b"y")
        assert [file.read_bytes() for file in logs.files("c")] == [b"y"]

    asyncio.run(use())


def test_uploads_at_a_time_count_together_and_each_file_has_one(tmp_path: Path) -> None:
    async def use() -> None:
        logs = LogStore(tmp_path, lambda root: 16)
        async with logs.upload(logs.path("c", "1")) as first, logs.upload(logs.path("c", "2")) as second:
            await first.write(b"12")
            with pytest.raises(TooLarge):
                await first.write(b"3")
            with pytest.raises(Conflict):
                async with logs.upload(logs.path("c", "1")):
                    pass
            await second.write(b"12")
        # What is kept is counted as much as what is free: sixteen there are, and four are ours.
        async with logs.upload(logs.path("c", "3")) as third:
            await third.write(b"12")
            assert quota(16, 6).total == 11

    asyncio.run(use())


def test_what_is_there_at_the_start_counts_and_what_was_half_written_goes(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/host_1.tar.gz").write_bytes(bytes(100))
    (tmp_path / "c/.tmpx").write_bytes(bytes(100))
    (tmp_path / "c/all.tar").write_bytes(bytes(100))
    logs = LogStore(tmp_path, lambda root: 20)
    assert [file.name for file in (tmp_path / "c").iterdir()] == ["host_1.tar.gz"]
    assert [file.name for file in logs.files("c")] == ["host_1.tar.gz"]
    assert logs.files("d") == []

    async def use() -> None:
        async with logs.upload(logs.path("c", "2")) as upload:
            with pytest.raises(NoSpace, match="together are larger than 60 bytes"):
                await upload.write(b"x")

    asyncio.run(use())


def test_real_room_is_asked_of_the_file_system(tmp_path: Path) -> None:
    space = os.statvfs(tmp_path)
    near = logstore.free_space(tmp_path / "not/there/yet")
    assert abs(near - space.f_bavail * space.f_frsize) < 1024**3


def test_all_logs_are_one_tar(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        empty = await fetch(client, fleet, "")
        with tarfile.open(fileobj=io.BytesIO(await empty.read())) as archive:
            assert (empty.status, archive.getnames()) == (200, [])
        sizes = {fleet.machines[0].id: 3 * logstore.CHUNK + 1, fleet.machines[1].id: 0, fleet.machines[2].id: 512}
        for host, size in sizes.items():
            answer = await send(client, fleet, f"logs_type=host&host_id={host}", form(os.urandom(size)))
            assert answer.status == 204
        for query in ("", "logs_type=all", "logs_type="):
            answer = await fetch(client, fleet, query)
            assert answer.headers["Content-Type"] == "application/octet-stream"
            assert answer.headers["Content-Disposition"] == f'attachment; filename="{fleet.cluster.name}_logs.tar"'
            with tarfile.open(fileobj=io.BytesIO(await answer.read())) as tar:
                members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
            wanted = {f"{fleet.cluster.name}/{file.name}": file.read_bytes() for file in stored(tmp_path)}
            assert members == wanted
            assert sorted(len(data) for data in members.values()) == [0, 512, 3 * logstore.CHUNK + 1]
        # Nothing is copied for it.
        assert len(stored(tmp_path)) == 3

    serve(tmp_path, use)


def test_a_tar_that_cannot_be_finished_has_no_good_end(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        host = fleet.machines[0].id
        await send(client, fleet, f"logs_type=host&host_id={host}", form(bytes(logstore.CHUNK * 3)))
        [file] = stored(tmp_path)
        original = os.fstat

        def larger(handle: int) -> Any:
            os.truncate(file, 10)
            return mock.Mock(st_size=logstore.CHUNK * 3, st_mtime=original(handle).st_mtime)

        with mock.patch.object(logstore.os, "fstat", larger):
            answer = await fetch(client, fleet, "logs_type=all")
            with pytest.raises(Exception, match=r"payload|closed|reset"):
                await answer.read()
        # One that has gone in between is left out.
        file.unlink()
        with tarfile.open(fileobj=io.BytesIO(await (await fetch(client, fleet, "logs_type=all")).read())) as archive:
            assert archive.getnames() == []

    serve(tmp_path, use)


def test_logs_go_with_their_cluster(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        await send(client, fleet, "logs_type=controller")
        answer = await client.delete(filled("/clusters/{cluster_id}", fleet), headers=header(Scheme.USER))
        assert answer.status == 204
        assert not stored(tmp_path)
        assert service_logs(client).files(fleet.cluster_id) == []

    serve(tmp_path, use)
