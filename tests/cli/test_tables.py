"""Tables: what is left out and cut where the terminal is narrow."""

from gateway.cli.tables import Column, table

COLUMNS = (Column("name"), Column("state"), Column("count", 1, right=True), Column("address", 2))
ROWS = [("greenhouse-north-7", "asleep", "12", "192.0.2.7:1883"), ("g", "lost", "3", "-")]


def drawn(width: int | None) -> list[str]:
    return list(table(COLUMNS, ROWS, width))


def test_where_nobody_counts_columns_a_table_is_whole() -> None:
    assert drawn(None) == [
        "name                state   count  address",
        "greenhouse-north-7  asleep     12  192.0.2.7:1883",
        "g                   lost        3  -",
    ]


def test_columns_that_matter_least_are_left_out_first() -> None:
    assert drawn(49) == drawn(None)
    assert drawn(48)[0] == "name                state   count"
    assert drawn(32)[0] == "name                state"


def test_a_name_is_cut_only_when_nothing_can_be_left_out() -> None:
    assert drawn(26)[1] == "greenhouse-north-7  asleep"
    assert drawn(22)[1] == "greenhouse-no…  asleep"
    assert drawn(5)[1] == "greenhouse-…  asleep", "and never to nothing"


def test_a_table_without_rows_has_its_headings() -> None:
    assert list(table(COLUMNS, [], None)) == ["name  state  count  address"]
