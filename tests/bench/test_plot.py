"""A plot stands alone, and its marks are where the numbers are."""

from xml.etree import ElementTree

from tests.bench.plot import LEFT, PANEL_HEIGHT, PANEL_WIDTH, TOP, Panel, Series, drawing

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*series: Series, y_is_log: bool = False) -> ElementTree.Element:
    panel = Panel("CPU <time>", "clients", "µs", series, y_is_log)
    return ElementTree.fromstring(drawing((panel,), "tests.bench.test_plot"))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def lines(root: ElementTree.Element) -> list[list[tuple[float, ...]]]:
    """Of the series, without those of the key."""
    found = [
        [tuple(map(float, point.split(","))) for point in element.attrib["points"].split()]
        for element in root.iter(f"{SVG}polyline")
    ]
    return found[len(found) // 2 :]


def test_names_units_and_marks_are_written() -> None:
    said = texts(drawn(Series("engine", ((10, 4.0), (100_000, 8.0)))))
    assert {"CPU <time>", "clients", "µs", "engine"} <= set(said)
    assert {"10", "100", "1,000", "100,000", "0", "2", "8"} <= set(said)


def test_a_tenfold_is_as_wide_as_any_other_and_zero_is_at_the_bottom() -> None:
    (points,) = lines(drawn(Series("engine", ((10, 0.0), (100, 4.0), (1000, 4.0)))))
    assert [x for x, _ in points] == [LEFT, LEFT + PANEL_WIDTH / 2, LEFT + PANEL_WIDTH]
    assert [y for _, y in points] == [TOP + PANEL_HEIGHT, TOP, TOP]


def test_a_logarithmic_height_goes_from_mark_to_mark() -> None:
    (points,) = lines(drawn(Series("p99", ((1, 0.1), (10, 1.0), (100, 10.0))), y_is_log=True))
    assert [y for _, y in points] == [TOP + PANEL_HEIGHT, TOP + PANEL_HEIGHT / 2, TOP]


def test_each_line_has_its_colour_and_all_lie_on_the_paper() -> None:
    every = [Series(f"line {number}", ((10, 1.0), (20, number + 2.0))) for number in range(4)]
    root = drawn(*every)
    classes = {element.attrib["class"] for element in root.iter(f"{SVG}polyline")}
    assert classes == {f"c{number} line" for number in range(4)}
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert all(0 <= x <= width and 0 <= y <= height for line in lines(root) for x, y in line)


def test_a_dark_screen_has_dark_paper() -> None:
    (style,) = drawn(Series("engine", ((10, 1.0), (20, 2.0)))).iter(f"{SVG}style")
    assert style.text is not None
    light, dark = style.text.split("prefers-color-scheme:dark")
    assert "--paper:#fff" in light
    assert "--paper:#14181e" in dark


def test_keys_with_long_names_stand_below_each_other() -> None:
    def places(*names: str) -> list[tuple[str | None, str | None]]:
        root = drawn(*(Series(name, ((10, 1.0), (20, 2.0))) for name in names))
        keys = [element for element in root.iter(f"{SVG}text") if element.text in names]
        return [(key.get("x"), key.get("y")) for key in keys]

    (x, y), (other_x, other_y) = places("p50", "p99")
    assert (x != other_x, y != other_y) == (True, False)
    (x, y), (other_x, other_y) = places("a reading up at 5,000/s, whole gateway", "an engine")
    assert (x != other_x, y != other_y) == (False, True)


def test_one_point_is_drawn_too() -> None:
    (points,) = lines(drawn(Series("engine", ((1000, 5.0),))))
    assert len(points) == 1
