"""Which limit of memory comes first, from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.host.memory_use import GIBIBYTE, MemoryUse, memory_use

MIB = 1 << 20


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="ascii")


def machine(total_mib: int, available_mib: int) -> dict[str, str]:
    text = f"MemTotal: {total_mib << 10} kB\nMemFree: 1 kB\nMemAvailable: {available_mib << 10} kB"
    return {"proc/meminfo": text}


def group(where: str, *, current: int, file: int = 0, **limits: object) -> dict[str, str]:
    files = {f"{where}/memory.{name}": str(value) for name, value in limits.items()}
    stat = f"anon 1\ninactive_file {file - file // 3}\nactive_file {file // 3}"
    return files | {f"{where}/memory.current": str(current), f"{where}/memory.stat": stat}


def test_without_any_of_them_nothing_is_known(tmp_path: Path) -> None:
    assert memory_use(tmp_path) is None


def test_of_a_small_machine_all_counts(tmp_path: Path) -> None:
    write(tmp_path, machine(512, 128))
    assert memory_use(tmp_path) == MemoryUse(384 * MIB, 512 * MIB, "this machine")


def test_of_a_large_one_what_is_left_counts(tmp_path: Path) -> None:
    write(tmp_path, machine(64 << 10, 5 << 10))
    assert memory_use(tmp_path) == MemoryUse(0, GIBIBYTE, "this machine")
    write(tmp_path, machine(64 << 10, 64))
    found = memory_use(tmp_path)
    assert found is not None
    assert found.share == pytest.approx(1 - 64 / 1024)


@pytest.mark.parametrize("limits", [{"high": 100 * MIB, "max": "max"}, {"max": 100 * MIB}])
def test_a_group_of_version_2_without_the_contents_of_files(
    tmp_path: Path, limits: dict[str, object]
) -> None:
    write(tmp_path, machine(8192, 4096) | {"proc/self/cgroup": "0::/system.slice/tidegate"})
    where = "sys/fs/cgroup/system.slice/tidegate"
    write(tmp_path, group(where, current=95 * MIB, file=15 * MIB, **({"high": "max"} | limits)))
    place = "its control group (tidegate)"
    assert memory_use(tmp_path) == MemoryUse(80 * MIB, 100 * MIB, place)


def test_a_group_above_it_may_come_first(tmp_path: Path) -> None:
    write(tmp_path, machine(8192, 4096) | {"proc/self/cgroup": "0::/a.slice/b"})
    write(tmp_path, group("sys/fs/cgroup/a.slice/b", current=10, high="max", max="max"))
    write(tmp_path, group("sys/fs/cgroup/a.slice", current=90, high="max", max=100))
    assert memory_use(tmp_path) == MemoryUse(90, 100, "its control group (a.slice)")


def test_in_a_container_the_mount_is_the_group(tmp_path: Path) -> None:
    write(tmp_path, machine(8192, 4096) | {"proc/self/cgroup": "9:cpu:/x\n4:memory:/docker/abc"})
    where = "sys/fs/cgroup/memory"
    stat = "cache 1\ntotal_inactive_file 4\ninactive_file 3\ntotal_active_file 6\nactive_file 2"
    write(
        tmp_path,
        {
            f"{where}/memory.limit_in_bytes": "200",
            f"{where}/memory.usage_in_bytes": "160",
            f"{where}/memory.stat": stat,
        },
    )
    assert memory_use(tmp_path) == MemoryUse(150, 200, "its control group (memory)")


def test_a_limit_of_version_1_that_is_none_is_none(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "4:memory:/"})
    where = "sys/fs/cgroup/memory"
    write(tmp_path, {f"{where}/memory.limit_in_bytes": "9223372036854771712"})
    assert memory_use(tmp_path) is None


@pytest.mark.parametrize("text", ["", "nonsense", "0::", "a:b:c", "MemTotal: x"])
def test_files_that_say_something_else_are_no_error(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"proc/meminfo": text, "proc/self/cgroup": text})
    assert memory_use(tmp_path) is None


def test_here_something_is_known() -> None:
    found = memory_use()
    assert found is not None
    assert found.used_bytes >= 0
    assert found.limit_bytes > 0
