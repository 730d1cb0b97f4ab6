"""What is opened before the gateway starts fits together."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.app.stores import open_stores
from gateway.config import load
from gateway.storage.state.epoch import EPOCH_MAX
from tests.storage.backup.support import gateway_folder

OF_THE_JOURNAL = 7  # of the readings of `gateway_folder`


@pytest.mark.parametrize("counted", [3, OF_THE_JOURNAL, None])
def test_the_epoch_is_above_that_of_every_reading_on_disk(
    tmp_path: Path, counted: int | None
) -> None:
    """The database alone was removed, or put back from long ago."""
    config = gateway_folder(tmp_path)
    if counted is not None:
        (tmp_path / "state" / "epoch").write_text(f"{counted - 1}\n")
    stores = open_stores(load(config, environment={}, overrides=[]).settings)
    try:
        assert OF_THE_JOURNAL < stores.epoch <= EPOCH_MAX
        assert stores.folder.store.epoch == stores.epoch
    finally:
        stores.journal.close()
        stores.release()


def test_an_epoch_that_is_above_it_counts_on_by_one(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    (tmp_path / "state" / "epoch").write_text("40\n")
    stores = open_stores(load(config, environment={}, overrides=[]).settings)
    stores.journal.close()
    stores.release()
    assert stores.epoch == 41
