"""The same cells reach the terminal and the document, and a failed run is seen in both."""

import json

from tests.bench import tables
from tests.bench.machine import Machine
from tests.bench.row import Row
from tests.bench.scenarios import MATRIX
from tests.bench.table import NOTHING, Table
from tests.bench.test_measurement import outage, process, restart, storm, times, traffic, waking
from tests.bench.yardstick import ECHO_US, MOSQUITTO_US

ROWS = {row.name: row for row in MATRIX}
FAST = {"gateway": process(9.0), "broker": process(6.0)}
MACHINE = Machine(
    measured_on="2026-11-21",
    processor="A processor",
    cores=4,
    memory_gib=3.7,
    system="Debian",
    kernel="6.12",
    python="3.13.5",
    form="compiled",
    mosquitto="2.0.21",
    compiler="14.2.0",
    revision="abc1234",
    load_average=0.25,
)


def echo(cpu_us: float) -> str:
    return json.dumps({"mode": "echo", "rate_per_s": 9000, "cpu_us_per_message": cpu_us})


def measured(name: str, *outputs: str) -> Row:
    return Row(ROWS[name], list(outputs))


def test_a_table_is_aligned_in_text_and_ruled_in_markdown() -> None:
    table = Table("Numbers", ("run", "n"), (("one", "1"), ("thousand", "1,000")))
    assert table.as_text().splitlines() == [
        "Numbers",
        "run           n",
        "--------  -----",
        "one           1",
        "thousand  1,000",
    ]
    assert table.as_markdown().splitlines() == [
        "| run | n |",
        "| --- | ---: |",
        "| one | 1 |",
        "| thousand | 1,000 |",
    ]


def test_a_line_of_traffic_has_its_figures_in_order() -> None:
    (table, _) = tables.tables([measured("qos1-up-100", traffic(lost=1, duplicates=2))])
    assert table.lines == (
        (
            "QoS 1 up, 100 clients",
            "5,000",
            "10.00",
            "2.50",
            "4.00",
            "2.50",
            "1.00 / 3.00",
            "1.00 / 3.00",
            "1",
            "2",
            "0",
            "0.20%",
            "10.24",
            "0 B",
            "FAIL",
        ),
    )


def test_a_line_of_a_storm_has_its_figures_in_order() -> None:
    (table, _) = tables.tables([measured("storm-1000", storm())])
    assert table.lines == (
        (
            "1,000 CONNECTs at once",
            "998 of 1,000",
            "0.500",
            "4",
            "3.0",
            "10.24",
            "2.0",
            "0.50 %",
            "FAIL",
        ),
    )


def test_a_line_of_an_outage_has_its_figures_in_order() -> None:
    (table, goals) = tables.tables([measured("outage-5000", outage(), outage())])
    assert table.lines[0][1:] == (
        "4.0",
        "1.00 / 3.00",
        "8,000",
        "80,000",
        "0",
        "0",
        "0",
        "0",
        "pass",
    )
    assert [line[1:] for line in goals.lines] == [
        ("PUBACK p99 while the broker is away less than 50 ms", "3.00 ms", "pass"),
        ("every message in order", "0", "pass"),
        ("backlog drained at 20,000/s or more", "80,000/s", "pass"),
    ]


def test_a_line_of_a_restart_has_its_time() -> None:
    (table, goals) = tables.tables([measured("restart-10000", restart())])
    assert table.lines == (("restart with 10,000 sessions", "0.750", "pass"),)
    assert goals.lines[0][2:] == ("0.75 s", "pass")


def test_a_line_of_sleepers_that_wake_has_its_figures_in_order() -> None:
    (table,) = tables.tables([measured("wake-1000", waking())])[:1]
    assert table.lines[0][1:] == (
        "0.250",
        "1.00 / 3.00",
        "150.0",
        "10.24",
        "0",
        "0",
        "pass",
    )


def test_the_journals_share_is_that_of_the_row_beside_it() -> None:
    whole = measured("qos1-up-100", traffic())
    half = measured("qos1-up-100-journal", traffic(rate_per_s=2400.0, journal_bytes=121.0))
    half.beside = whole
    (traffic_table, goals) = tables.tables([half])
    assert traffic_table.lines[0][-2] == "121 B"
    assert [line[2:] for line in goals.lines[:2]] == [("0.48", "FAIL"), ("121.00 B", "pass")]
    half.beside = None
    assert tables.tables([half])[1].lines[0][2:] == ("not measured", "unclear")


def test_memory_of_a_single_client_is_not_told() -> None:
    (table, _) = tables.tables([measured("qos1-up-1", traffic())])
    assert table.lines[0][table.header.index("KiB/client")] == NOTHING


def test_rows_go_to_the_table_of_their_kind() -> None:
    drawn = tables.tables(
        [
            measured("qos1-up-100", traffic()),
            measured("storm-1000", storm()),
            measured("outage-200", outage()),
            measured("restart-10000", restart()),
            measured("udp-echo", echo(1.5)),
        ]
    )
    assert [(table.title, len(table.lines)) for table in drawn[:5]] == [
        ("Traffic through the gateway", 1),
        ("The broker away", 1),
        ("Connect storms", 1),
        ("Restarts after kill -9", 1),
        ("Yardsticks, in the same session", 1),
    ]
    assert all(len(line) == len(table.header) for table in drawn for line in table.lines)


def test_a_row_without_figures_is_drawn_as_failed() -> None:
    row = Row(ROWS["qos1-up-100"], errors=["the gateway ended with exit code 1:\ntraceback"])
    traffic_table, goals = tables.tables([row])
    assert traffic_table.lines[0][-1] == "FAIL"
    assert set(traffic_table.lines[0][1:-1]) == {NOTHING}
    assert goals.lines == (
        ("QoS 1 up, 100 clients", "all 8", "the gateway ended with exit code 1", "FAIL"),
    )
    assert tables.summary([row]) == "0 of 8 goals met"
    assert tables.progress(row) == "no figures"


def test_goals_of_the_row_are_told_and_common_ones_only_when_missed() -> None:
    clean = traffic(end_to_end_us=times(), acknowledge_us=times(), **FAST)
    _, goals = tables.tables([measured("qos1-up-100", clean)])
    assert [line[1:] for line in goals.lines] == [
        ("gateway CPU at most 9 µs", "9.00 µs", "pass"),
        ("gateway CPU at most 1.5 times mosquitto's", "1.50 times", "pass"),
        ("nothing written to disk", "0.00 B a message", "pass"),
    ]
    assert tables.summary([measured("qos1-up-100", clean)]) == "8 of 8 goals met"


def test_beside_yardsticks_goals_are_judged_as_on_the_machine_that_they_were_set_on() -> None:
    clean = {"end_to_end_us": times(), "acknowledge_us": times(), "broker": process(15.0)}
    rows = [
        measured("qos1-up-100", traffic(gateway=process(18.0), **clean)),
        measured("qos2-up-100", traffic(gateway=process(49.0), **clean)),
        measured("mosquitto-alone-qos1", traffic(mode="direct", broker=process(2 * MOSQUITTO_US))),
        measured("udp-echo", echo(4 * ECHO_US)),
    ]
    goals = tables.tables(rows)[-1]
    told = {line[:2]: line[3:] for line in goals.lines}
    one, two = "QoS 1 up, 100 clients", "QoS 2 up, 100 clients"
    assert told[one, "gateway CPU at most 9 µs"] == ("FAIL", "9.00 µs: pass")
    assert told[one, "gateway CPU at most 1.5 times mosquitto's"] == ("pass", NOTHING)
    assert told[two, "gateway CPU at most 24 µs"] == ("FAIL", "24.50 µs: FAIL")
    assert told[two, "at least 20,000 messages a second"] == ("FAIL", "10,000/s: FAIL")
    assert tables.tables(rows[:3])[-1].header[-1] == "outcome"


def test_the_section_tells_machine_versions_and_command() -> None:
    rows = [measured("qos1-up-100", traffic(), traffic(), traffic())]
    text = tables.section(rows, MACHINE, "python -m tests.bench --repeats 3")
    text = " ".join(text.split())
    for fact in (
        "2026-11-21",
        "`python -m tests.bench --repeats 3`",
        "abc1234",
        "A processor, 4 cores, 4 GiB",
        "kernel 6.12",
        "Python 3.13.5, modules of the gateway compiled; mosquitto 2.0.21",
        "3 interleaved runs per row",
        "| QoS 1 up, 100 clients | 5,000 |",
    ):
        assert fact in text


def test_progress_says_the_figures_of_one_run() -> None:
    assert tables.progress(measured("qos1-up-100", traffic())) == (
        "5,000/s, gateway 10.00 µs, mosquitto 4.00 µs, 0 lost"
    )
    assert tables.progress(measured("outage-200", outage())) == (
        "PUBACK 1.00 / 3.00 ms meanwhile, drained at 80,000/s, 0 lost, 0 twice"
    )
    assert tables.progress(measured("restart-10000", restart())) == "first PUBACK after 0.750 s"
    assert tables.progress(measured("storm-1000", storm())) == ("998 of 1,000 connected in 0.500 s")
