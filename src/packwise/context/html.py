"""A context's record as one self-contained page: what fills the budget, and what is out why.

The page asks for nothing from anywhere and runs no script; every text on it is escaped.
"""

from __future__ import annotations

from collections import Counter
from html import escape

from packwise.context.packer import Context, PackedPassage
from packwise.context.trace import Dropped, DropReason, Selected

_MEANINGS: dict[DropReason, str] = {
    DropReason.BELOW_QUALITY: "a stub",
    DropReason.DUPLICATE_OF: "repeats a better one",
    DropReason.MERGED_INTO: "its text is in already",
    DropReason.PER_DOCUMENT_CAP: "its document gave enough",
    DropReason.PER_SECTION_CAP: "its section gave enough",
    DropReason.LOW_NOVELTY: "too like another",
    DropReason.LOW_VALUE: "not worth its tokens",
    DropReason.OVER_BUDGET: "no room left",
}
_HUES = (212, 158, 34, 276, 4, 190, 90, 328, 246, 52)
# What could not fit is a warning, what is there already is calm, what is worth little is grey.
_REASON_COLOURS: dict[DropReason, tuple[int, int]] = {
    DropReason.BELOW_QUALITY: (4, 60),
    DropReason.DUPLICATE_OF: (276, 55),
    DropReason.MERGED_INTO: (212, 60),
    DropReason.PER_DOCUMENT_CAP: (190, 55),
    DropReason.PER_SECTION_CAP: (172, 45),
    DropReason.LOW_NOVELTY: (328, 55),
    DropReason.LOW_VALUE: (215, 12),
    DropReason.OVER_BUDGET: (34, 80),
}

_NUMBERS = ("rank", "final", "expected", "quality", "novelty", "bonus", "tokens")

_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1b1f24; --soft: #5b6470;
  --line: #dfe3e8; --track: #e8ebef; --head: #9aa4b1; --tone: 46%; --chip: 92%; --word: 28%; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --card: #1c2026; --ink: #e6e9ed;
  --soft: #98a2af; --line: #2d333b; --track: #2a3038; --head: #667180; --tone: 54%;
  --chip: 22%; --word: 78%; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.45rem; line-height: 1.3; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2.25rem 0 .75rem; }
p { margin: 0; } .soft { color: var(--soft); } .num { font-variant-numeric: tabular-nums; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
  gap: .75rem; margin: 1.25rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .6rem .9rem; }
.tile b { display: block; font-size: 1.3rem; font-weight: 650; line-height: 1.25; }
.tile span { color: var(--soft); font-size: .85rem; }
.bar { display: flex; height: 2rem; border-radius: .45rem; overflow: hidden;
  background: var(--track); margin: .35rem 0 .2rem; }
.bar i { display: block; min-width: 2px; font: 600 .8rem/2rem system-ui, sans-serif;
  text-align: center; color: #fff; overflow: hidden; border-right: 1px solid var(--card); }
.bar i:last-child { border-right: 0; }
.scale { display: flex; justify-content: space-between; color: var(--soft); font-size: .8rem; }
.seg { background: hsl(var(--hue) 62% var(--tone)); } .bar .free { border: 0; min-width: 0; }
.heads { background: var(--head); }
article { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  border-left: 5px solid hsl(var(--hue) 62% var(--tone)); padding: .8rem 1rem; margin: .7rem 0; }
article header { display: flex; flex-wrap: wrap; gap: .2rem .7rem; align-items: baseline; }
article header b { overflow-wrap: anywhere; }
article pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; margin: .55rem 0 0; }
.facts { color: var(--soft); font-size: .82rem; margin-top: .5rem; overflow-wrap: anywhere; }
.chip { --sat: 60; display: inline-block; border-radius: 1rem; padding: .05rem .6rem;
  font-size: .8rem; background: hsl(var(--hue) calc(var(--sat) * 1%) var(--chip));
  color: hsl(var(--hue) calc(var(--sat) * 1%) var(--word));
  white-space: nowrap; }
.legend { display: flex; flex-wrap: wrap; gap: .4rem .8rem; margin-bottom: .8rem; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; }
th, td { text-align: left; padding: .45rem .7rem; border-top: 1px solid var(--line);
  vertical-align: top; } thead th { border-top: 0; color: var(--soft); font-weight: 600; }
td.num, th.num { text-align: right; } td.id { overflow-wrap: anywhere; min-width: 11rem; }
@media (max-width: 40rem) { .extra { display: none; } td.id { min-width: 7rem; }
  main { padding: 1.25rem .9rem 3rem; } th, td { padding: .4rem .5rem; } }
details { margin-top: 2rem; } summary { cursor: pointer; color: var(--soft); }
details pre { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: 1rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .82rem; }
"""


def render(context: Context) -> str:
    """The page for a context, as HTML."""
    trace = context.trace
    by_marker: dict[int, list[Selected]] = {}
    for selected in trace.selected:
        by_marker.setdefault(selected.marker, []).append(selected)
    body = [
        f"<h1>{escape(context.question)}</h1>",
        f'<p class="soft">policy {escape(trace.policy)} ({escape(trace.method)}), tokens of '
        f"{escape(trace.tokenizer)}{'' if trace.exact else ', estimated with a margin'}</p>",
        _tiles(context),
        _bars(context),
        "<h2>In the context</h2>",
        *(_card(passage, by_marker.get(passage.marker, [])) for passage in context.passages),
        "" if context.passages else '<p class="soft">Nothing.</p>',
        f"<h2>Left out ({len(trace.dropped)})</h2>",
        _legend(trace.dropped),
        _table(trace.dropped),
        "<details><summary>The context as text</summary>"
        f"<pre>{escape(context.text)}</pre></details>",
        f"<details><summary>The record as JSON</summary><pre>{escape(trace.as_json())}</pre>"
        "</details>",
    ]
    return (
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            f"<title>{escape(context.question[:80])}</title><style>{_STYLE}</style></head>"
            f"<body><main>{''.join(body)}</main></body></html>\n"
        )
        .encode("utf-8", "replace")
        .decode("utf-8")
    )


def _tiles(context: Context) -> str:
    trace = context.trace
    tiles = [
        (f"{context.tokens:,}", f"of {context.budget:,} tokens"),
        (str(len(context.passages)), "passages cited"),
        (f"{trace.coverage:.0%}", "of the expected answer"),
        (f"{trace.header_tokens:,}", "tokens of headers and markers"),
        (str(trace.candidates), "candidates"),
    ]
    cells = "".join(
        f'<div class="tile"><b class="num">{escape(value)}</b><span>{escape(label)}</span></div>'
        for value, label in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _bars(context: Context) -> str:
    """The budget, and what fills how much of it."""
    used, budget = context.tokens, max(1, context.budget)
    segments = "".join(
        f'<i class="seg" style="--hue:{_hue(p)};flex:{p.tokens} 0 0" '
        f'title="[{p.marker}] {escape(_name(p), quote=True)}: {p.tokens} tokens">{p.marker}</i>'
        for p in context.passages
    )
    rest = max(0, used - sum(p.tokens for p in context.passages))
    if rest:
        segments += (
            f'<i class="heads" style="flex:{rest} 0 0" '
            f'title="titles and section paths: {rest} tokens"></i>'
        )
    share = 100 * used / budget
    left = context.budget - used
    if left > 0:
        segments += f'<i class="free" style="flex:{left} 0 0" title="free: {left} tokens"></i>'
    return (
        f'<div class="bar" role="img" aria-label="{share:.0f}% of the budget used">{segments}</div>'
        f'<div class="scale num"><span>{used:,} of {context.budget:,} tokens used, {share:.0f}%'
        f"</span><span>{left:,} free</span></div>"
    )


def _card(passage: PackedPassage, members: list[Selected]) -> str:
    path = " > ".join(passage.section_path)
    chips = ""
    if passage.reduced:
        kept, of = sum(m.sentences[0] for m in members), sum(m.sentences[1] for m in members)
        chips += f'<span class="chip" style="--hue:34">{kept} of {of} sentences</span>'
    if len(members) > 1:
        chips += f'<span class="chip" style="--hue:190">{len(members)} passages joined</span>'
    facts = "".join(f'<p class="facts num">{_facts(member)}</p>' for member in members)
    return (
        f'<article style="--hue:{_hue(passage)}"><header><b>[{passage.marker}] '
        f"{escape(passage.title or passage.document)}</b>"
        f'<span class="soft">{escape(path)}</span>'
        f'<span class="soft num">{passage.tokens} tokens</span>{chips}</header>'
        f"<pre>{escape(passage.text)}</pre>{facts}</article>"
    )


def _facts(member: Selected) -> str:
    parts = [f"{escape(member.id)}: rank {member.rank}", f"final {_digits(member.scores.final)}"]
    if member.attached_to is not None:
        parts = [f"{escape(member.id)}: attached to {escape(member.attached_to)}"]
    parts += [
        f"expected answer {member.value:.1%} of {member.mass:.1%}",
        f"novelty {member.novelty:.2f}",
        f"quality {_digits(member.quality) or 'unknown'}",
        f"bonus {member.bonus:.3f}",
    ]
    if member.features:
        parts.append(escape(", ".join(member.features)))
    if member.spared:
        parts.append(f"kept though short: {escape(member.spared)}")
    return " · ".join(parts)


def _legend(dropped: tuple[Dropped, ...]) -> str:
    counts = Counter(d.reason for d in dropped)
    chips = "".join(
        f'<span><span class="chip" style="{_colour(reason)}">{reason.value}</span> '
        f'<span class="soft num">{counts[reason]} · {escape(meaning)}</span></span>'
        for reason, meaning in _MEANINGS.items()
        if counts[reason]
    )
    return f'<div class="legend">{chips}</div>'


def _table(dropped: tuple[Dropped, ...]) -> str:
    if not dropped:
        return '<p class="soft">Nothing.</p>'
    head = "<th>reason</th><th>passage</th>" + "".join(
        f'<th class="{_column(name)}">{name}</th>' for name in _NUMBERS
    )
    rows = "".join(_row(d) for d in sorted(dropped, key=lambda d: d.rank))
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(dropped: Dropped) -> str:
    of = f'<br><span class="soft">{escape(dropped.of)}</span>' if dropped.of else ""
    cells = (
        str(dropped.rank),
        _digits(dropped.scores.final),
        "" if dropped.mass is None else f"{dropped.mass:.1%}",
        _digits(dropped.quality),
        _digits(dropped.novelty),
        _digits(dropped.bonus),
        "" if dropped.tokens is None else f"{dropped.tokens:,}",
    )
    return (
        f'<tr><td><span class="chip" style="{_colour(dropped.reason)}">'
        f"{dropped.reason.value}</span>{of}</td>"
        f'<td class="id">{escape(dropped.id)}</td>'
        + "".join(
            f'<td class="{_column(name)}">{cell}</td>'
            for name, cell in zip(_NUMBERS, cells, strict=True)
        )
        + "</tr>"
    )


def _column(name: str) -> str:
    """Its class; what says least is left away on a narrow screen."""
    return "num extra" if name in ("quality", "novelty", "bonus") else "num"


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _hue(passage: PackedPassage) -> int:
    return _HUES[(passage.marker - 1) % len(_HUES)]


def _colour(reason: DropReason) -> str:
    hue, saturation = _REASON_COLOURS[reason]
    return f"--hue:{hue};--sat:{saturation}"


def _name(passage: PackedPassage) -> str:
    return passage.title or passage.document
