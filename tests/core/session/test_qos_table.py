"""The table against a dictionary: with none, with one, with many, and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.session.qos_table import QosTable

names = st.sampled_from(["a", "b", "c"])
qualities = st.integers(0, 2)


@given(st.lists(st.tuples(names, qualities | st.none())))
def test_a_table_holds_what_a_dictionary_would(steps: list[tuple[str, int | None]]) -> None:
    table = QosTable()
    model: dict[str, int] = {}
    for name, qos in steps:
        if qos is None:
            assert table.pop(name) is (model.pop(name, None) is not None)
        else:
            table.put(name, qos)
            model[name] = qos
        assert table.items() == list(model.items())
        assert len(table) == len(model)
        assert [each in table for each in "abc"] == [each in model for each in "abc"]
