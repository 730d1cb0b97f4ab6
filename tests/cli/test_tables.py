"""Tables: what is cut and left out where the terminal is narrow."""

from gateway.cli.tables import Column, table

COLUMNS = (
    Column("name", is_name=True),
    Column("state"),
    Column("count", 1, right=True),
    Column("address", 2),
)
ROWS = [
    ("greenhouse-north/temperature-7", "asleep", "12", "192.0.2.7:1883"),
    ("g", "lost", "3", "-"),
]


def drawn(width: int | None) -> list[str]:
    return list(table(COLUMNS, ROWS, width))


def test_where_nobody_counts_columns_a_table_is_whole() -> None:
    assert drawn(None) == [
        "name                            state   count  address",
        "greenhouse-north/temperature-7  asleep     12  192.0.2.7:1883",
        "g                               lost        3  -",
    ]
    assert drawn(61) == drawn(None)


def test_names_are_cut_in_their_middle_first() -> None:
    assert drawn(60)[1] == "greenhouse-nor…/temperature-7  asleep     12  192.0.2.7:1883"
    assert drawn(51)[1] == "greenhous…perature-7  asleep     12  192.0.2.7:1883"


def test_then_columns_are_left_out_that_matter_least() -> None:
    assert drawn(50)[0] == "name                            state   count"
    assert drawn(28)[0] == "name                  state"
    assert drawn(5)[1] == "greenhous…perature-7  asleep", "and no name is cut to nothing"


def test_the_longest_names_are_cut_first_and_then_all_together() -> None:
    columns = (Column("a", is_name=True), Column("b", is_name=True))
    rows = [("x" * 30, "y" * 24)]
    assert [len(line) for line in table(columns, rows, 50)][1] == 50
    assert [len(part) for part in list(table(columns, rows, 50))[1].split()] == [24, 24]
    assert [len(part) for part in list(table(columns, rows, 47))[1].split()] == [22, 23]


def test_a_table_without_rows_has_its_headings() -> None:
    assert list(table(COLUMNS, [], None)) == ["name  state  count  address"]
