"""Titles, sentences, badges and states: how a page says things.

The layout of a page, top down: :func:`title` with the object's name and its facts, the key figures
(:func:`dashboard.components.figures.key_figures`), at most one sentence (:func:`answer`), the
chart, the table, and the rest in tabs that are computed when opened. While a plan is open, the
action bar (:mod:`dashboard.components.action_bar`) stays at the bottom::

    words.title("Broker 127.0.0.1:8080", "Pulsar 4.2.4 · leader · up 41 min")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.errors import OpsError, UnknownNameError
from core.snapshot import Manifest
from dashboard import legible, state
from dashboard.presenters.freshness import Badge
from dashboard.sitemap import ENTRIES

_TITLE: Final = "_title"
_TAB: Final = "_tab_title"

_RULES: Final = """<style>
.stApp { font-variant-numeric: tabular-nums; }
.st-key-answer p { font-size: 1.18rem; line-height: 1.5; font-weight: 450; }
.st-key-title h1 { padding: 0.1rem 0 0.6rem; }
[class*="st-key-figures_"] {
  display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 320px);
}
[class*="st-key-figures_"] > * { min-width: 0; width: 100%; }
[class*="st-key-figure_"] [data-testid="stMetric"] {
  min-height: 82px; height: 100%; padding: 0; overflow: hidden;
  background-repeat: no-repeat; background-position: right 0.4rem top 0.45rem;
}
[class*="st-key-figures_"] > *, [class*="st-key-figure_"] > [data-testid="stElementContainer"],
[class*="st-key-figures_"] > * > [class*="st-key-figure_"] { height: 100%; }
[class*="st-key-figure_"] [data-testid="stMetric"] > div:first-child {
  padding: 0.35rem 0.6rem 0.4rem;
}
[class*="st-key-figure_"] [data-testid="stMetricValue"] { line-height: 1.3; padding: 0; }
[class*="st-key-figure_"] [data-testid="stMetricDelta"] {
  background: none; padding: 0; font-size: 0.85rem; margin: 0;
}
[class*="st-key-figure_bad_"] [data-testid="stMetric"] {
  border-color: #cf5a2b; background-color: #cf5a2b14;
}
[class*="st-key-figure_warning_"] [data-testid="stMetric"] {
  border-color: #c99a2e; background-color: #c99a2e14;
}
[data-selected="true"]:not(label, .stCheckbox) [data-testid="stMarkdownContainer"] p,
[data-testid="stSliderThumbValue"] p { color: light-dark(#0b6478, #6cc3d8); }
[data-testid="stHeader"] div { pointer-events: none; }
[data-testid="stHeader"] { pointer-events: none; background: none; height: 3rem; min-height: 0; }
[data-testid="stHeader"] :is(button, a) { pointer-events: auto; }
[data-testid="stStatusWidget"] button { display: none; }
[data-testid="stSkeleton"] { animation: appear 0s 0.25s both; }
@keyframes appear { from { opacity: 0; } }
[data-testid="stForm"] [data-testid="InputInstructions"] { display: none; }
[data-testid="stMainBlockContainer"] { padding: 0.55rem 1.6rem 3rem; gap: 0.6rem; }
[class*="st-key-header"]:not(.st-key-header_live) {
  border-bottom: 1px solid rgba(128, 140, 150, 0.25); padding: 0 2.4rem 0.4rem 0;
}
.st-key-header-production { border-bottom: 3px solid #8b6cc4; }
.st-key-header-staging { border-bottom: 3px solid #4a8fd0; }
[data-testid="stSidebar"][data-collapsed="true"] ~ * [data-testid="stMainBlockContainer"] {
  padding-left: 4rem;
}
[data-testid="stMain"] h1:focus-visible { outline: none; box-shadow: none; }
body :is(a, button, pre, [role="tab"]):focus-visible {
  outline: 2px solid light-dark(#0b6478, #6cc3d8); outline-offset: 1px; box-shadow: none;
}
[data-testid="stTooltipContent"] { pointer-events: none; }
.js-plotly-plot :is([class$="tick"], .cbaxis, [class^="g-x"], [class^="g-y"]) text,
.js-plotly-plot .annotation-text[style*="fill: rgb(128, 132, 149)"] {
  fill: light-dark(#55636e, #d3dae0) !important;
}
[data-testid="stElementToolbar"]:focus-within { opacity: 1; top: -3rem; z-index: 100; }
[data-testid="stElementToolbar"] button:focus-visible { outline-offset: -2px; }
.js-plotly-plot .modebar-container { top: 100% !important; }
.js-plotly-plot, .stElementContainer:has(> * > .stPlotlyChart) { overflow: visible !important; }
.js-plotly-plot .plotly .modebar:focus-within > .modebar-group { opacity: 1; }
.modebar-btn:focus-visible { outline-color: light-dark(#0b6478, #6cc3d8) !important; }
.modebar-btn path { fill: light-dark(#5b6a75, #a9b7c0) !important; }
.modebar-btn:is(:hover, :focus-visible, .active) path {
  fill: light-dark(#0b6478, #6cc3d8) !important;
}
[data-testid="stCode"] .token:is(
  .assign-left, .builtin, .function, .parameter, .string, .variable
) {
  color: light-dark(#0b6478, #6cc3d8) !important;
}
[data-testid="stMetricValue"], [data-testid="stMetricValue"] *,
[data-testid="stMetricDelta"], [data-testid="stMetricDelta"] * {
  white-space: normal !important; overflow: visible; text-overflow: clip;
  overflow-wrap: anywhere;
}
[data-testid="stCaptionContainer"] { color: inherit; opacity: 0.75; }
[data-testid="stCaptionContainer"] :is(p, li, span) { color: inherit; }
[data-testid="stCaptionContainer"] ul { padding-left: 1rem; margin: 0 0 1rem; }
[data-testid="stCaptionContainer"] li { margin: 0; padding: 0; }
[data-testid="stBottom"] > div { border-top: 1px solid rgba(128, 140, 150, 0.35); }
[data-testid="stBottomBlockContainer"] { padding: 0.6rem 1.6rem; }
[class*="st-key-figure_"] { container-type: inline-size; }
@container (max-width: 150px) {
  [data-testid="stMetric"]:has([data-testid="stTooltipIcon"]) {
    background-image: none !important;
  }
}
.st-key-past {
  background: #2f6fb5; border-radius: 4px; padding: 0.3rem 0.8rem; color: #ffffff;
}
.st-key-past :is([data-testid="stMarkdown"], [data-testid="stButton"]) :is(p, span, kbd) {
  color: #ffffff;
}
.st-key-past [data-testid="stButton"] button {
  border-color: #ffffff; color: #ffffff; background: none;
}
.st-key-time_past [data-testid="stSelectbox"] [role="group"] {
  background: #2f6fb5; border-color: #2f6fb5;
}
.st-key-time_past :is(input, button, [data-testid="stSelectboxIcon"]) {
  color: #ffffff; caret-color: #ffffff;
}
.st-key-backtest_form [data-testid="stButtonGroup"] > div { flex-wrap: wrap; }
@media (max-width: 1200px) {
  [data-testid="stSidebar"] { width: 152px !important; min-width: 152px !important; }
  [data-testid="stSidebarContent"] { padding-inline: 0.3rem; }
  [data-testid="stMainBlockContainer"] { padding-inline: 0.8rem; }
  [class*="st-key-header"] > [data-testid="stElementContainer"]:has(> [data-testid="stSpace"]) {
    display: none;
  }
  [class*="st-key-header"]:not(.st-key-header_live) { flex-wrap: nowrap; gap: 0.4rem; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-badges), .st-key-badges {
    width: auto; flex: 1 1 0; min-width: 0;
  }
  [data-testid="stLayoutWrapper"]:has(> [class*="st-key-calm_"]), [class*="st-key-calm_"] {
    display: none;
  }
  [class*="st-key-action_bar_"] { column-gap: 0.9rem; }
  [class*="st-key-action_bar_"] [data-testid="stMetricValue"] { font-size: 1.25rem; }
  [class*="st-key-figures_"] {
    grid-auto-flow: row; grid-template-columns: repeat(4, minmax(0, 1fr));
  }
  [class*="st-key-figures_"]:has(> :nth-child(5):last-child) {
    grid-template-columns: repeat(5, minmax(0, 1fr));
  }
  [class*="st-key-figures_"]:has(> :nth-child(5):last-child) [data-testid="stMetricValue"] {
    font-size: 1.25rem;
  }
  [class*="st-key-figures_"]:has(> :nth-child(6):last-child) {
    grid-template-columns: repeat(3, minmax(0, 1fr));
  }
  [class*="st-key-columns_"] > div > [data-testid="stHorizontalBlock"],
  [class*="st-key-columns_"] > [data-testid="stHorizontalBlock"] { flex-wrap: wrap; }
  [class*="st-key-columns_"] > div > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"],
  [class*="st-key-columns_"] > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"] {
    min-width: 460px; flex-grow: 1;
  }
  :is(.st-key-columns_settings, .st-key-columns_server_settings)
  > div > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:last-child,
  :is(.st-key-columns_settings, .st-key-columns_server_settings)
  > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:last-child { order: -1; }
  .st-key-backtest_form [data-testid="stHorizontalBlock"] { flex-wrap: wrap; }
  .st-key-backtest_found > div > [data-testid="stHorizontalBlock"],
  .st-key-backtest_found > [data-testid="stHorizontalBlock"] { flex-wrap: wrap; }
  .st-key-backtest_found [data-testid="stColumn"] { min-width: 480px; flex-grow: 1; }
  .st-key-backtest_form [data-testid="stColumn"] { min-width: 300px; flex-grow: 1; }
  .st-key-workbench > [data-testid="stHorizontalBlock"],
  .st-key-workbench > div > [data-testid="stHorizontalBlock"] { flex-wrap: wrap; }
  .st-key-workbench > div > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"],
  .st-key-workbench > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"] {
    min-width: 560px; flex-grow: 1;
  }
}
.st-key-header_live { flex-wrap: nowrap; flex-shrink: 0; }
[data-testid="stLayoutWrapper"]:has(> [data-testid="stVerticalBlock"] > .st-key-palette),
[data-testid="stVerticalBlock"]:has(> .st-key-palette), .st-key-palette {
  flex: 0 0 auto; width: auto; min-width: 0;
}
</style>"""
STYLE: Final = " ".join(line.strip() for line in _RULES.splitlines())
"""On one line: Streamlit looks at the indentation of every line again, with every run."""


def style() -> None:
    """Add the few style rules that the theme cannot hold (tabular figures, answer line)."""
    st.html(STYLE)


def title(text: str, subtitle: str = "") -> None:
    """Show the name of the page or of its object; called again, in the place of the former.

    Args:
        text: ``Fleet``, ``Broker 127.0.0.1:8080``.
        subtitle: A few facts with `` · `` between them; empty: none.
    """
    st.session_state[_TAB] = _tab_title(text)
    st.set_page_config(page_title=tab_title())
    if _TITLE not in st.session_state:
        st.session_state[_TITLE] = st.container(key="title", width="content").empty()
    with st.session_state[_TITLE].container(gap="xxsmall", width="content"):
        st.title(_escaped(legible.labeled(text, is_full=True)), anchor=False)
        if subtitle:
            st.caption(plain(subtitle))


def tab_title() -> str:
    """Return the title of the browser's tab of the last run."""
    return str(st.session_state.get(_TAB, "Trimtab"))


def _tab_title(text: str) -> str:
    """Return the title of the browser's tab: the object, or the page and its cluster."""
    entry = ENTRIES.get(state.page())
    is_of_cluster = entry is not None and entry.answers and text == entry.title
    parts = (text, state.text(state.CLUSTER) if is_of_cluster else "", "Trimtab")
    return " · ".join(part for part in parts if part)


def forget_title() -> None:
    """Forget the place of the last run's title."""
    st.session_state.pop(_TITLE, None)


def answer(sentence: str) -> None:
    """Show the one sentence that answers the page's question."""
    with st.container(key="answer"):
        st.markdown(plain(sentence))


def plain(text: str) -> str:
    """Return ``text`` so that Markdown shows it as it is, without links and invisible letters.

    Servers have their labels.
    """
    return _escaped(legible.labeled(text))


def _escaped(text: str) -> str:
    shown = legible.without_links(legible.sentence(text))
    return "".join("\\" + sign if sign in "\\`*_[]<>$#~|:@" else sign for sign in shown)


def coded(text: str) -> str:
    """Return ``text`` with the parts between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return plain(text)
    return "".join(
        f"`{legible.sentence(part)}`" if at % 2 else plain(part) for at, part in enumerate(parts)
    )


def badge(item: Badge) -> None:
    """Show a badge with its help."""
    text, more = plain(item.text), coded(item.help)
    st.badge(text, icon=item.icon, color=item.tone, help=more or None)


def section(text: str, note: str = "") -> None:
    """Show the head of a part of the page, with a few words that explain it."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.header(plain(text), anchor=False, width="content")
        if note:
            st.caption(plain(note), width="content")


def failed(error: OpsError, *, what: str) -> None:
    """Draw an error of ours: the failed action, the reason, and the remedy."""
    body = plain(error.message) + (f"\n\n{plain(error.hint)}" if error.hint else "")
    st.error(body, title=what, icon=":material/error:")


def report_unknown(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Render the names in the address that do not exist; the page continues without them.

    Args:
        kind: What they would be: ``node``.
        names: As in the address.
        known: Of which the message offers near ones.
    """
    for name in names:
        error = UnknownNameError.of(kind, name, known)
        st.toast(plain(f"{error.message} {error.hint}".strip()), duration="long")


def notes(sentences: Sequence[str]) -> None:
    """Show remarks as a small list; one of them is a line."""
    mark = "- " if len(sentences) > 1 else ""
    if sentences:
        st.caption("\n".join(f"{mark}{coded(sentence)}" for sentence in sentences))


def nothing(what: str, manifest: Manifest) -> None:
    """Render that a table is missing, with the problems that caused it."""
    st.warning(
        "\n".join(
            f"- {plain(problem.what)} {plain(problem.done)}"
            for problem in manifest.problems
            if problem.severity != "info"
        )[:2_000]
        or "The snapshot has no problems. This cluster has no such objects.",
        title=what,
        icon=":material/block:",
    )
