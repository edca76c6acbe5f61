"""Names of others on pages and in a terminal: legible, without links, and of bounded length."""

from __future__ import annotations

import ast
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dashboard
from core.units import visible
from dashboard.charts.heatmap import HeatmapData, broker_heatmap
from dashboard.charts.readable import readable
from dashboard.cli.output import print_json, print_line
from dashboard.components import words
from dashboard.components.tables import inert
from dashboard.legible import is_formula, legible, legible_frame, option, original
from dashboard.serve import __main__ as serve

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
REVERSED = "broker-\u202egpj.exe:8080"
HOSTILE = (
    REVERSED,
    "acme/\u200borders",
    "\x1b]0;owned\x07b-1",
    "\x9b31mred",
    "a\u3164b",
    "lone\udc80",
    "b" * 5_000,
)


@pytest.mark.parametrize("name", HOSTILE)
def test_name_is_shown_with_codes_and_a_bounded_length(name: str) -> None:
    shown = legible(name)
    assert len(shown) <= 120
    assert shown != name
    assert original(shown) == name
    assert visible(shown) == shown
    shown.encode()


def test_plain_names_stay_as_they_are() -> None:
    for name in ("broker-1.example:8080", "acme/orders/0x00000000_0x40000000", "Ärger 日本 5%"):
        assert legible(name) is name
        assert words.plain(name).replace("\\", "") == name


def test_long_names_that_differ_in_the_middle_stay_apart() -> None:
    assert legible("a" * 500 + "1" + "a" * 500) != legible("a" * 500 + "2" + "a" * 500)


@pytest.mark.parametrize(
    "text",
    [
        "https://evil.example/x",
        "see www.evil.example now",
        "[click](https://evil.example)",
        "mail root@evil.example",
    ],
)
def test_markdown_finds_no_link(text: str) -> None:
    shown = re.sub(r"\\(.)", r"\1", words.plain(text))
    # what GitHub's autolinks look for, after the escapes are read
    assert not re.search(r"(?i)(https?://|www(?=\.))[-.\w]+", shown)
    assert not re.search(r"[-.\w+]+@[-\w]+", shown)
    assert "\\[" in words.plain(text) or "[" not in text


def test_terminal_and_json_get_no_control_characters(capsys) -> None:
    for name in HOSTILE:
        print_line(name)
        print_json({"name": name})
    out = capsys.readouterr().out
    assert visible(out) == out
    assert "broker-<U+202E>gpj.exe" in out
    read = [json.loads(line)["name"] for line in out.splitlines() if line.startswith("{")]
    assert read == list(HOSTILE)


def heatmap(names: list[str]) -> HeatmapData:
    values = np.ones((len(names), 3))
    return HeatmapData(
        rows=names,
        times=[NOON.replace(minute=minute) for minute in range(3)],
        values=values,
        fleet_mean=values[0],
        fleet_low=values[0],
        fleet_high=values[0],
        unit="ratio",
        label="CPU",
        tolerance_ratio=0.1,
    )


def test_heatmap_of_a_broker_with_5000_letters_keeps_its_shape() -> None:
    names = ["b" * 5_000, "b" * 4_999 + "c", REVERSED, '<a href="https://evil.example">x</a>']
    figure = readable(broker_heatmap(heatmap(names)))
    written = figure.to_json()
    assert "b" * 121 not in written
    assert "\\u202e" not in written
    assert "<a " not in written.replace("\\u003c", "<")
    assert max(map(len, figure.layout.yaxis2.ticktext)) <= 64
    assert len(set(figure.data[-1].y)) == 4


def test_figure_of_plain_names_is_left_alone() -> None:
    plain = broker_heatmap(heatmap(["broker-1:8080", "broker-2:8080"]))
    before = plain.to_json()
    assert readable(plain).to_json() == before


def test_tables_show_legible_names_in_every_kind_of_column() -> None:
    frame = pd.DataFrame(
        {
            "text": [REVERSED, "b"],
            "kind": pd.Categorical([REVERSED, "b"]),
            "list": [[REVERSED], ["b"]],
            "number": [1.0, 2.0],
        }
    )
    shown = legible_frame(frame)
    assert shown["text"][0] == shown["kind"][0] == shown["list"][0][0] == legible(REVERSED)
    assert shown["number"].tolist() == [1.0, 2.0]
    assert frame["text"][0] == REVERSED
    assert legible_frame(frame[1:]) is not None


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1", "\tx"]
)
def test_formula_is_marked_in_every_kind_of_column(text: str) -> None:
    assert is_formula(text)
    frame = pd.DataFrame({"a": [text, "b"], "c": pd.Categorical([text, "b"]), text: [1, 2]})
    cells = inert(frame)
    assert cells["a"].tolist() == cells["c"].tolist() == [f"'{text}", "b"]
    assert list(cells.columns) == ["a", "c", f"'{text}"]


def test_every_table_and_chart_passes_its_border() -> None:
    """Streamlit's own are called in one place each, where names are made legible."""
    calls = {
        (path.name, call)
        for path in Path(dashboard.__path__[0]).rglob("*.py")
        for call in ("st.dataframe(", "st.plotly_chart(", "st.data_editor(")
        if call in path.read_text()
    }
    assert calls == {("tables.py", "st.dataframe("), ("figures.py", "st.plotly_chart(")}


def test_streamlit_hands_out_no_cells_of_its_own(monkeypatch) -> None:
    seen: dict[str, object] = {}

    class App:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self, config: dict[str, object]) -> None:
            seen.update(config)

    monkeypatch.setattr(serve, "end_with_parent", lambda _answers: None)
    monkeypatch.setattr(serve.st, "App", App)
    monkeypatch.setattr("sys.argv", ["serve", "127.0.0.1", "8501"])
    serve.main()
    assert seen["client.disableDataExport"] is True


def test_no_page_writes_html_of_others() -> None:
    """Scripts in names do nothing: HTML is written in one place, and it is a constant."""
    root = Path(dashboard.__path__[0])
    texts = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}
    assert not [name for name, text in texts.items() if "unsafe_allow_html" in text]
    assert not [name for name, text in texts.items() if "components.v1" in text]
    html = {
        (name, line.strip())
        for name, text in texts.items()
        for line in text.splitlines()
        if "st.html(" in line
    }
    # rules of ours with our keys, sizes and pictures; levels and abilities are our words
    assert html == {
        ("components/words.py", "st.html(STYLE)"),
        ("components/navigation.py", "st.html("),
        ("components/figures.py", "st.html(f\"<style>{' '.join(rules)}</style>\")"),
        (
            "components/figures.py",
            'st.html(f"<style>{place} {{ min-height: {height}px; }}</style>")',
        ),
        ("components/identity.py", "st.html(_LEAVE[path], unsafe_allow_javascript=True)"),
        ("components/applying.py", "st.html(_FOCUS, unsafe_allow_javascript=True)"),
        ("app_pages/backtest/view.py", "st.html(_INTO_VIEW, unsafe_allow_javascript=True)"),
        ("app_pages/pegasus/cluster/level.py", "st.html(model.dots(facts))"),
    }


CHOICES = ("selectbox", "multiselect", "segmented_control", "pills", "radio")
FOREIGN = {
    *("BROKER", "NODE", "NAMESPACE", "BUNDLE", "BUNDLES", "TABLE", "TENANT", "TOPIC", "OWNER"),
    *("FROM", "TO", "FAIL", "FAIL_DOMAIN", "RESOURCE_GROUP"),
}


def test_choices_of_foreign_names_show_every_character() -> None:
    assert option("acme/\u202eorders") == "acme/<U+202E>orders"
    assert option("a" * 500) == "a" * 500
    root = Path(dashboard.__file__).parent
    offenders = []
    for path in sorted(root.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            given = {one.arg: one.value for one in getattr(call, "keywords", ())}
            is_choice = getattr(getattr(call, "func", None), "attr", "") in CHOICES
            key = getattr(given.get("key"), "attr", "")
            if is_choice and key in FOREIGN and "format_func" not in given:
                offenders.append(f"{path.relative_to(root)}:{call.lineno}")
    assert offenders == []
