"""An evaluation as one page: curves, a verdict, and every question down to its trace.

The page is one file that asks for nothing from anywhere and runs no script; every text on it
is escaped. The first variant is the one the others are held against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from packwise.evaluation.calibration_metrics import assess, reliability, risk_coverage
from packwise.evaluation.charts import Line, lines, stacks
from packwise.evaluation.contexts import ANSWER_RECALL, GARBAGE, GOLD_RECALL, TOKENS
from packwise.evaluation.data import DataSet
from packwise.evaluation.experiment import Answered, Arm
from packwise.evaluation.metrics import HEADLINE, Metric, mean, recall
from packwise.evaluation.records import confidences, there
from packwise.evaluation.verdict import Verdict, differences, judge

BUDGETS = (250, 500, 1000, 2000, 4000, 8000)
"""The budgets of the curves."""

MOST_SHOWN = 40
"""Questions of each kind that are shown: the page stays a few megabytes at most."""

_DEEPEST = 20
_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_DECIDED = {"ship": "good", "no difference": "even", "rollback": "bad"}

_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1b1f24; --soft: #5b6470;
  --line: #dfe3e8; --track: #eceff2; --t0: #7a8594; --t1: #1f6fd6; --t2: #c2570c; --t3: #13805a;
  --t4: #8a4fc7; --good: #13805a; --bad: #c0322b; --even: #9a6700; --sat: 58%; --lit: 50%; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --card: #1c2026; --ink: #e6e9ed;
  --soft: #98a2af; --line: #2d333b; --track: #2a3038; --t0: #8f9aa8; --t1: #6aa9f4; --t2: #f0945a;
  --t3: #4cc38a; --t4: #b98bea; --good: #4cc38a; --bad: #f2746b; --even: #d9a441; --sat: 45%;
  --lit: 56%; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.5rem 0 .75rem; } h3 { font-size: .95rem; margin: 0 0 .1rem; }
p { margin: 0; } .soft { color: var(--soft); } .num { font-variant-numeric: tabular-nums; }
.note { color: var(--soft); font-size: .85rem; margin: 0 0 .6rem; }
.card, .tile { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0; }
.tile { padding: .65rem .9rem; } .tile b { display: block; font-size: 1.35rem; line-height: 1.25; }
.tile span { color: var(--soft); font-size: .85rem; display: block; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr));
  gap: .9rem; } .charts .card { padding: .9rem 1rem .6rem; min-width: 0; }
svg { display: block; width: 100%; height: auto; }
.grid { stroke: var(--line); } .tick { fill: var(--soft); font-size: 11px; }
.axis { fill: var(--soft); font-size: 11.5px; } .line { fill: none; stroke-width: 2.2;
  stroke-linejoin: round; } .dot { stroke: var(--card); stroke-width: 1; }
.keys { display: flex; flex-wrap: wrap; gap: .15rem .9rem; font-size: .82rem; margin: .3rem 0; }
.key { display: inline-flex; align-items: center; gap: .35rem; }
.key i { width: 1rem; height: 0; border-top: 3px solid; display: inline-block; }
.key i.dashed { border-top-style: dashed; } .key i.box { height: .75rem; width: .75rem; border: 0;
  border-radius: .2rem; }
.stack { display: flex; height: 1.35rem; background: var(--track); border-radius: .35rem;
  overflow: hidden; margin: .15rem 0 .7rem; } .stack i { display: block; min-width: 1px; }
.row { display: flex; justify-content: space-between; gap: 1rem; }
.verdict { padding: .9rem 1.1rem; border-left: 5px solid var(--tone); }
.verdict b.word { font-size: 1.3rem; color: var(--tone); } .verdict ul { margin: .4rem 0 0;
  padding: 0; list-style: none; } .verdict li { padding: .1rem 0; }
.good { --tone: var(--good); } .bad { --tone: var(--bad); } .even { --tone: var(--even); }
.mark { display: inline-block; width: 1.2rem; font-weight: 700; color: var(--tone, var(--soft)); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .87rem; }
th, td { text-align: left; padding: .4rem .7rem; border-top: 1px solid var(--line);
  vertical-align: top; } thead th { border-top: 0; color: var(--soft); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.faint td { color: var(--soft); } td.wide { min-width: 14rem; overflow-wrap: anywhere; }
details.q { background: var(--card); border: 1px solid var(--line); border-radius: .55rem;
  margin: .4rem 0; } details.q > summary { cursor: pointer; padding: .5rem .8rem; display: flex;
  gap: .6rem; align-items: baseline; list-style: none; }
details.q > summary::-webkit-details-marker { display: none; }
details.q > summary::before { content: "▸"; color: var(--soft); flex: none; }
details.q[open] > summary::before { content: "▾"; }
summary .text { flex: 1; overflow-wrap: anywhere; min-width: 0; }
summary .change { flex: none; font-variant-numeric: tabular-nums; font-weight: 600;
  color: var(--tone, var(--soft)); font-size: .87rem; }
.inside { padding: .2rem .9rem .9rem; } .inside h3 { margin: .9rem 0 .3rem; }
.inside h3 span { font-weight: 400; font-size: .87rem; }
.hit { font-weight: 650; color: var(--good); } .chips { display: flex; flex-wrap: wrap;
  gap: .3rem; } .chip { background: var(--track); border-radius: 1rem; padding: .05rem .6rem;
  font-size: .8rem; } .snip { color: var(--soft); display: block; font-size: .82rem; }
@media (max-width: 40rem) { main { padding: 1.25rem .8rem 3rem; } th, td { padding: .35rem .45rem; }
  .extra { display: none; } td.wide { min-width: 9rem; } .tick { font-size: 13px; }
  .snip { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2;
  overflow: hidden; }
  .axis { font-size: 13.5px; } }
"""
_TONES = "".join(
    f".t{i} {{ color: var(--t{i}); stroke: var(--t{i}); }} .dot.t{i} {{ fill: var(--t{i}); "
    f"stroke: var(--card); }} .key i.t{i} {{ border-color: var(--t{i}); }}\n"
    for i in range(5)
)
_STAGES = "".join(
    f".s{i} {{ background: hsl({hue} var(--sat) var(--lit)); }}\n"
    for i, hue in enumerate((212, 34, 158, 276, 4, 190, 90, 328, 246, 52))
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a page shows: the arms of one trial over one data set, the first as reference."""

    dataset: DataSet
    arms: tuple[Arm, ...]
    command: str
    size_bytes: int = 0


def render(report: Report) -> str:
    """The page, as HTML."""
    first, last = report.arms[0], report.arms[-1]
    verdict = judge(last, first) if len(report.arms) == 2 else None
    names = " and ".join(escape(arm.variant) for arm in report.arms)
    half = f", {report.dataset.half} half" if report.dataset.half else ""
    size = f", a store of {report.size_bytes / 1e6:.1f} MB" if report.size_bytes else ""
    body = [
        f"<h1>{escape(report.dataset.name)}: {names}</h1>",
        f'<p class="soft">{len(first.answered):,} questions of {escape(report.dataset.split)}'
        f"{half}, contexts of {first.budget:,} tokens{size}. Made by "
        f"<code>{escape(report.command)}</code></p>",
        _tiles(report),
        _verdict(verdict, report) if verdict else "",
        "<h2>Curves</h2>",
        f'<div class="charts">{"".join(_charts(report))}</div>',
        "<h2>Every metric</h2>",
        _table(report),
        _questions(report),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(report.dataset.name)}: {names}</title>"
        f"<style>{_STYLE}{_TONES}{_STAGES}</style></head><body><main>"
        + "\n".join(part for part in body if part)
        + "</main></body></html>\n"
    )


def _tiles(report: Report) -> str:
    first, last = report.arms[0], report.arms[-1]
    tiles: list[str] = []
    for label, metric in (
        ("answer recall", str(Metric(ANSWER_RECALL, last.budget))),
        ("gold recall", str(Metric(GOLD_RECALL, last.budget))),
        ("nDCG@10", str(HEADLINE)),
        ("recall@5", "recall@5"),
        ("garbage in the context", str(Metric(GARBAGE, last.budget))),
    ):
        if not last.scores(metric):
            continue
        was = f"{escape(first.variant)}: {first.value(metric):.1%}" if first is not last else ""
        tiles.append(_tile(f"{last.value(metric):.1%}", label, was))
    was = f"{escape(first.variant)}: {first.latency.p95:.0f} ms" if first is not last else ""
    tiles.append(_tile(f"{last.latency.p95:.0f} ms", "p95, search and packing", was))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _tile(value: str, label: str, was: str) -> str:
    return (
        f'<div class="tile"><b class="num">{value}</b><span>{label}</span><span>{was}</span></div>'
    )


def _verdict(verdict: Verdict, report: Report) -> str:
    rows: list[str] = []
    for rule in verdict.rules:
        mark, tone = ("–", "") if rule.met is None else ("✓", "good")
        if rule.met is False:
            mark, tone = "✗", "bad" if rule.rollback else "even"
        rows.append(
            f'<li class="{tone}"><span class="mark">{mark}</span>{escape(rule.name)}: '
            f"{escape(rule.found or 'not measured')} "
            f'<span class="soft">(needs: {escape(rule.needs)})</span></li>'
        )
    old, new = (escape(arm.variant) for arm in report.arms)
    power = ""
    if verdict.difference is not None and verdict.detectable:
        power = (
            f'<p class="note" style="margin:.5rem 0 0">{verdict.difference.questions:,} questions '
            f"show a difference of {verdict.detectable * 100:.1f} points four times in five"
            + (f"; {verdict.needed:,} would show this one" if verdict.needed else "")
            + ".</p>"
        )
    return (
        f'<div class="card verdict {_DECIDED[verdict.outcome]}"><b class="word">'
        f'{escape(verdict.outcome)}</b> <span class="soft">{new} in place of {old}</span>'
        f"<ul>{''.join(rows)}</ul>{power}</div>"
    )


def _charts(report: Report) -> list[str]:
    arms = report.arms
    tones = _tone(arms)
    charts: list[str] = []
    relevant = report.dataset.relevant
    ranked = [
        Line(
            arm.variant,
            tuple(
                (
                    float(k),
                    mean(
                        recall(a.documents, relevant[a.question.id], k)
                        for a in arm.answered
                        if a.question.id in relevant
                    ),
                )
                for k in (1, 2, 3, 5, 7, 10, 15, _DEEPEST)
            ),
            tone,
        )
        for arm, tone in zip(arms, tones, strict=True)
    ]
    if any(a.question.id in relevant for a in arms[0].answered):
        charts.append(
            _chart(
                "Recall by depth",
                "Share of the relevant documents among the first k.",
                lines(ranked, x="documents", y="recall", ticks_x=(1, 5, 10, 15, 20)),
            )
        )
    for title, note, formula in (
        ("Answers by budget", "Share of contexts that hold the answer.", ANSWER_RECALL),
        ("Gold by budget", "Share of contexts with a judged-relevant passage.", GOLD_RECALL),
        ("Garbage by budget", "Tokens of passages that are not relevant.", GARBAGE),
        ("Tokens by budget", "What a context takes of its budget.", TOKENS),
    ):
        curves = [
            Line(arm.variant, _by_budget(arm, formula), tone)
            for arm, tone in zip(arms, tones, strict=True)
        ]
        if not all(curve.points for curve in curves):
            continue
        charts.append(
            _chart(
                title,
                note,
                lines(
                    curves,
                    x="tokens of budget",
                    y=title.lower(),
                    log_x=True,
                    percent_y=formula != TOKENS,
                    ticks_x=BUDGETS,
                ),
            )
        )
    charts += _confidence(arms[-1])
    rows = [
        (arm.variant, [(name, latency.p50) for name, latency in arm.stages.items()]) for arm in arms
    ]
    charts.append(
        _chart(
            "Latency by stage",
            "Medians of each stage; the keyword leg runs while the question is embedded.",
            stacks(rows, unit="ms"),
        )
    )
    return charts


def _by_budget(arm: Arm, formula: str) -> tuple[tuple[float, float], ...]:
    found = [(budget, arm.scores(str(Metric(formula, budget)))) for budget in BUDGETS]
    return tuple((float(budget), mean(scores.values())) for budget, scores in found if scores)


def _confidence(arm: Arm) -> list[str]:
    """Risk and reliability, where some questions cannot be answered."""
    right = [found for _, found in there(arm)]
    if not any(right) or all(a.question.answerable for a in arm.answered):
        return []
    series: list[Line] = []
    found = confidences(arm)
    kinds = [("confidence", found["confidence"], 0, True)]
    if "probability" in found:
        kinds.append(("probability", found["probability"], 1, False))
    for name, values, tone, dashed in kinds:
        curve = risk_coverage(values, right)
        points = [min(curve, key=lambda p, s=share: abs(p.coverage - s)) for share in _SHARES]
        at = {(p.coverage, p.risk): None for p in points}
        auroc = assess(values, right).auroc
        series.append(Line(f"{name}, AUROC {auroc:.3f}", tuple(at), tone, dashed))
    charts = [
        _chart(
            "Risk by coverage",
            "Answer the surest questions first: how many of them have no answer there.",
            lines(series, x="share of questions answered", y="risk", percent_x=True),
        )
    ]
    if len(kinds) == 2:
        values = kinds[1][1]
        bins = reliability(values, right)
        ece = assess(values, right).ece
        curve = Line(
            f"probability, error {ece:.3f}", tuple((b.confidence, b.right) for b in bins), 1
        )
        perfect = Line("what it should be", ((0.0, 0.0), (1.0, 1.0)), 0, True, dots=False)
        charts.append(
            _chart(
                "Does the probability mean what it says?",
                "Questions of like probability: how often the answer is there.",
                lines(
                    [perfect, curve],
                    x="probability",
                    y="answer there",
                    percent_x=True,
                    whole_y=True,
                ),
            )
        )
    return charts


def _chart(title: str, note: str, drawing: str) -> str:
    return (
        f'<div class="card"><h3>{escape(title)}</h3><p class="note">{escape(note)}</p>'
        f"{drawing}</div>"
    )


def _table(report: Report) -> str:
    first, last = report.arms[0], report.arms[-1]
    changes = differences(last, first) if first is not last else {}
    heads = "".join(f'<th class="n">{escape(arm.variant)}</th>' for arm in report.arms)
    extra = '<th class="n">difference [95%]</th><th class="n extra">p</th>' if changes else ""
    rows: list[str] = []
    curve = {str(b) for b in BUDGETS if b != last.budget}
    for metric in last.metrics:
        if metric.partition("@")[2] in curve and "_" in metric:
            continue
        digits = 0 if metric.startswith(TOKENS) else 3
        cells = "".join(f'<td class="n">{arm.value(metric):.{digits}f}</td>' for arm in report.arms)
        style = ""
        if changes:
            d = changes.get(metric)
            if d is None:
                cells += '<td></td><td class="extra"></td>'
            else:
                style = "" if d.clear else ' class="faint"'
                p = f"{d.p_value:.3f}" if d.p_value >= 0.001 else "&lt; 0.001"
                cells += (
                    f'<td class="n">{d.mean:+.{digits}f} [{d.low:+.{digits}f}, '
                    f'{d.high:+.{digits}f}]</td><td class="n extra">{p}</td>'
                )
        rows.append(f"<tr{style}><td>{escape(metric)}</td>{cells}</tr>")
    for name in ("p50", "p95", "p99"):
        cells = "".join(
            f'<td class="n">{getattr(arm.latency, name):.1f}</td>' for arm in report.arms
        )
        if changes:
            change = getattr(last.latency, name) / getattr(first.latency, name) - 1
            cells += f'<td class="n">{change:+.0%}</td><td class="extra"></td>'
        rows.append(f"<tr><td>{name} ms</td>{cells}</tr>")
    cells = "".join(f'<td class="n">{arm.errors:.1%}</td>' for arm in report.arms)
    rows.append(f"<tr><td>errors</td>{cells}{'<td></td><td></td>' if changes else ''}</tr>")
    return (
        '<div class="card scroll"><table><thead><tr><th>metric</th>'
        f"{heads}{extra}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _questions(report: Report) -> str:
    """Wins and losses of the last variant against the first, then what nobody found."""
    first, last = report.arms[0], report.arms[-1]
    judged = _judged_by(last)
    paired = [
        (a, b, b.scores.get(judged, 0.0) - a.scores.get(judged, 0.0))
        for a, b in zip(first.answered, last.answered, strict=True)
        if judged in b.scores and judged in a.scores
    ]
    parts: list[str] = []
    wins = sorted((p for p in paired if p[2] > 0), key=lambda p: -p[2])
    losses = sorted((p for p in paired if p[2] < 0), key=lambda p: p[2])
    missed = [p for p in paired if not p[2] and p[1].scores[judged] < 0.5]
    for title, rows, tone in (
        (f"Won by {last.variant}", wins, "good"),
        (f"Lost by {last.variant}", losses, "bad"),
        ("Found by neither" if first is not last else "Not found", missed, ""),
    ):
        if first is last and tone:
            continue
        more = f", {len(rows) - MOST_SHOWN} more not shown" if len(rows) > MOST_SHOWN else ""
        parts.append(f"<h2>{escape(title)}: {len(rows)}{more}</h2>")
        if rows is wins:
            parts.append(f'<p class="note">By {escape(judged)}. Open a question for its trace.</p>')
        parts += [_question(report, a, b, change, tone) for a, b, change in rows[:MOST_SHOWN]]
        if not rows:
            parts.append('<p class="soft">None.</p>')
    return "".join(parts)


def _judged_by(arm: Arm) -> str:
    """The metric questions are won and lost by: the tightest one that tells them apart."""
    for formula in (ANSWER_RECALL, GOLD_RECALL):
        metric = str(Metric(formula, arm.budget))
        if arm.scores(metric):
            return metric if formula == ANSWER_RECALL else str(HEADLINE)
    return str(HEADLINE)


def _question(report: Report, a: Answered, b: Answered, change: float, tone: str) -> str:
    question = b.question
    answers = " / ".join(question.answers[:4])
    answered = f'<p class="note">answer: {escape(answers)}</p>' if answers else ""
    sides = [(report.arms[0].variant, a), (report.arms[-1].variant, b)]
    if report.arms[0] is report.arms[-1]:
        sides = sides[1:]
    said = f"{change:+.2f}" if change else ""
    return (
        f'<details class="q {tone}"><summary><span class="text">{escape(question.text)}</span>'
        f'<span class="change">{said}</span></summary><div class="inside">{answered}'
        f"{''.join(_side(name, one) for name, one in sides)}</div></details>"
    )


def _side(name: str, one: Answered) -> str:
    if one.error:
        return f"<h3>{escape(name)}</h3><p>{escape(one.error)}</p>"
    record = one.record
    taken = {s["id"]: s for s in record.get("selected", ())}
    dropped = {d["id"]: d["reason"] for d in record.get("dropped", ())}
    rows = "".join(_hit(rank, hit, taken, dropped) for rank, hit in enumerate(record["hits"], 1))
    stages = "".join(
        f'<span class="chip">{escape(stage)} {ms:.1f} ms</span>' for stage, ms in one.stages.items()
    )
    sure = f"confidence {one.confidence:.2f}"
    if one.probability is not None:
        sure += f", probability {one.probability:.2f}"
    notes = "".join(_notes(stage) for stage in record["search"]["stages"])
    return (
        f'<h3>{escape(name)} <span class="soft num">{one.ms:.0f} ms, {sure}, '
        f"{record['tokens']:,} tokens</span></h3>"
        '<div class="scroll"><table><thead><tr><th class="n">#</th><th>passage</th>'
        '<th class="n">score</th><th class="n extra">vector</th><th class="n extra">keyword</th>'
        f"<th>context</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f'<div class="chips" style="margin-top:.5rem">{stages}</div>'
        f'<details><summary class="soft">what each stage noted</summary><div class="scroll">'
        f"<table><tbody>{notes}</tbody></table></div></details>"
    )


def _hit(
    rank: int,
    hit: Mapping[str, Any],
    taken: Mapping[str, Mapping[str, Any]],
    dropped: Mapping[str, str],
) -> str:
    kept = taken.get(hit["id"])
    fate = f"in, {kept['tokens']} tokens" if kept else dropped.get(hit["id"], "")
    title = escape(hit["title"] or hit["document"])
    right = f'<span class="hit">✓ {title}</span>' if hit["right"] else title
    return (
        f'<tr><td class="n">{rank}</td><td class="wide">{right} '
        f'<span class="soft">{escape(hit["id"])}</span><span class="snip">'
        f'{escape(" ".join(hit["text"].split()))}…</span></td><td class="n">{hit["score"]:.3f}</td>'
        f'<td class="n extra">{_number(hit["vector"])}</td>'
        f'<td class="n extra">{_number(hit["keyword"])}</td>'
        f"<td>{escape(fate.replace('_', ' '))}</td></tr>"
    )


def _notes(stage: Mapping[str, Any]) -> str:
    told = ", ".join(
        f"{key.replace('_', ' ')} {value}"
        for key, value in stage.items()
        if key not in ("name", "ms") and value is not None
    )
    return (
        f'<tr><td>{escape(stage["name"])}</td><td class="n">{stage["ms"]:.2f}</td>'
        f'<td class="wide">{escape(told)}</td></tr>'
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _tone(arms: Sequence[Arm]) -> list[int]:
    """Grey for what is held against, colours for the others; a single one has a colour."""
    return [1] if len(arms) == 1 else [min(i, 4) for i in range(len(arms))]
