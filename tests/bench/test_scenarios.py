"""The matrix has the rows that were asked for, in an order that spreads disturbances."""

import pytest

from tests.bench.scenarios import MATRIX, TUNED, Kind, chosen, interleaved


def test_the_matrix_has_every_direction_quality_and_size() -> None:
    names = {row.name for row in MATRIX}
    assert names >= {f"qos{qos}-up-{clients}" for qos in (0, 1) for clients in (1, 100, 1000)}
    assert names >= {f"qos1-down-{clients}" for clients in (1, 100, 1000)}
    assert names >= {"qos0-up-100-at-5000", "qos1-up-100-together"}
    assert names >= {"qos2-up-100", "fan-out-100"}
    assert names >= {"wake-1000", "outage-200", "outage-5000", "restart-10000"}
    assert names >= {"storm-1000", "storm-10000", "mosquitto-alone-qos1", "udp-echo"}


def test_names_are_unique() -> None:
    names = [row.name for row in (*MATRIX, *TUNED)]
    assert len(names) == len(set(names))


def test_rows_are_interleaved() -> None:
    rows = chosen(["storm"], with_tuned=False)
    order = [(repeat, row.name) for repeat, row in interleaved(rows, 2)]
    assert order == [(1, "storm-1000"), (1, "storm-10000"), (2, "storm-1000"), (2, "storm-10000")]


def test_rows_are_chosen_by_the_beginning_of_their_name() -> None:
    assert [row.name for row in chosen(["udp", "fan"], with_tuned=False)] == [
        "fan-out-100",
        "udp-echo",
    ]
    assert chosen([], with_tuned=False) == MATRIX


def test_a_whole_name_is_that_row_alone() -> None:
    assert [row.name for row in chosen(["qos1-up-1"], with_tuned=False)] == ["qos1-up-1"]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError, match="qos7"):
        chosen(["qos1", "qos7"], with_tuned=False)


def test_the_tuned_broker_is_asked_for_by_name() -> None:
    assert all(row.broker_config for row in TUNED)
    assert {row.kind for row in MATRIX if row.broker_config} == {Kind.OUTAGE}
    assert set(TUNED) <= set(chosen([], with_tuned=True))
    with pytest.raises(KeyError):
        chosen(["qos1-up-100-tuned"], with_tuned=False)


def test_only_traffic_lines_and_yardsticks_are_as_long_as_asked() -> None:
    own = {row.kind for row in MATRIX if not row.lasts_as_asked}
    assert own == {Kind.STORM, Kind.WAKING, Kind.OUTAGE, Kind.RESTART}


def test_the_journal_stands_beside_the_same_load_without_it() -> None:
    rows = {row.name: row for row in MATRIX}
    journal = rows["qos1-up-100-journal"]
    assert journal.arguments == rows[journal.beside].arguments
    assert 'acknowledge = "journal"' in journal.gateway_config
