"""A wrong command line ends with the reason, and nothing is started."""

import pytest

from tests.bench.__main__ import EXIT_USAGE, main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "qos7"], "no run begins with 'qos7'; there are: qos0-up-1 "),
        (["--seconds", "soon"], "expected a number above 0 and at most 3600, got soon"),
        (["--seconds", "nan"], "expected a number above 0 and at most 3600, got nan"),
        (["--repeats", "0"], "expected a number above 0 and at most 1000, got 0"),
        (["--repeats", "1.5"], "expected a number above 0 and at most 1000, got 1.5"),
        (["--broker", "other"], "invalid choice: 'other'"),
    ],
)
def test_a_wrong_word_is_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == EXIT_USAGE
    assert said in capsys.readouterr().err


def test_help_names_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "qos1-up-1000" in told
    assert "storm-10000" in told
