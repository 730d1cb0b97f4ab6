from pathlib import Path

import pytest

from gateway.storage.journal.options import WhenFull
from tests.storage.journal.lives import Lives, Weather
from tests.support.samples import sample

FAIR = Weather()
FAILING = Weather(failing=0.02, full=0.2)
DROPPING = Weather(full=0.3, when_full=WhenFull.DROP_OLDEST)


@pytest.mark.parametrize("weather", [FAIR, FAILING, DROPPING])
@pytest.mark.parametrize("seeds", sample([range(8), range(8, 100)], 1), ids=["few", "many"])
def test_nothing_stored_is_lost_whenever_the_process_is_killed(
    seeds: range, weather: Weather, tmp_path: Path
) -> None:
    kills = sum(Lives(seed, tmp_path / str(seed), weather).play() for seed in seeds)
    assert kills > 2 * len(seeds)
