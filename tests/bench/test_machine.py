"""The facts of the machine are read from what Linux shows on boards and on PCs."""

from dataclasses import asdict, replace

from tests.bench.machine import memory_gib, processor, this_machine

BOARD_CPUINFO = "processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"


def test_a_board_is_named_by_its_device_tree() -> None:
    assert processor("Raspberry Pi 5 Model B Rev 1.0\0", "") == "Raspberry Pi 5 Model B Rev 1.0"


def test_without_a_device_tree_the_cpuinfo_names_it() -> None:
    assert processor("", BOARD_CPUINFO) == "Raspberry Pi 4 Model B Rev 1.4"
    assert processor("", "processor : 0\nmodel name : Some CPU @ 2 GHz\n") == "Some CPU @ 2 GHz"
    assert processor("", "") != ""


def test_memory_is_told_in_gib() -> None:
    assert memory_gib("MemFree: 1 kB\nMemTotal:        4194304 kB\n") == 4.0
    assert memory_gib("") == 0.0


def test_every_fact_of_this_machine_is_known() -> None:
    facts = asdict(this_machine())
    assert all(value not in ("", None) for value in facts.values())
    assert facts["memory_gib"] > 0
    assert facts["mosquitto"][0].isdigit()


def test_processors_that_were_kept_awake_are_told() -> None:
    machine = this_machine()
    assert "kept awake" not in machine.told("")
    assert f"{machine.cores} cores kept awake, " in replace(machine, kept_awake=True).told("")
