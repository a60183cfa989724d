"""An audit as one self-contained HTML page: no script, no connection, everything escaped.

Charts are inline SVG; their colours come from the page's style, and their lengths are in per cent, so that they fit.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedveil import __version__
from fedveil.audit.evidence import percent
from fedveil.audit.verdict import LEAST_ROWS
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.files import write_atomically
from fedveil.report.marks import COLOURS

if TYPE_CHECKING:
    from fedveil.audit.auditing import Audit
    from fedveil.audit.output_entropy import OutputEntropy

_TICKS = (0, 25, 50, 75, 100)
_HEIGHT = 84
"""The height of a histogram, in pixels."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_CAVEATS = (
    "It is an estimate against the attackers tried. A cleverer attacker may read more. An audit of rounded scores says "
    "nothing about scores that are released with more decimals.",
    "It holds for records like these. Others may be treated differently, even on purpose.",
    "It is about this attribute. Another one, or a combination, may be carried.",
    "It is about these outputs. Whoever wrote the file may serve another model tomorrow.",
    "“Standard” and “correlated” do not prove innocence, and “curious” does not prove intent: it says that the "
    "scores carry the attribute, not who wanted them to.",
)


class _Bar(NamedTuple):
    """One line of the chart of shares: a figure with its interval, and a mark to compare it with."""

    label: str
    note: str
    share: Estimate
    shown: str
    mark: float
    mark_name: str
    kind: str


def write_page(audits: Sequence[Audit], out: str | Path, source: str, panel: str = "full") -> Path:
    """Write the page for audits of one file, worst first, and return its path."""
    path = Path(out)
    check_writable(path)
    write_atomically(path, page(audits, source, panel))
    return path


def check_writable(out: Path, source: Path | None = None) -> None:
    """Refuse a path where the page cannot be written, or that of the file to be audited, before time is spent."""
    if out.is_dir():
        raise InputError(f"{out}: is a directory; name a file with --out")
    if not out.parent.is_dir():
        raise InputError(f"{out}: the directory {out.parent} does not exist; create it first")
    if source is not None and out.exists() and source.exists() and out.samefile(source):
        raise InputError(f"{out}: is the file to be audited; name another with --out")


def page(audits: Sequence[Audit], source: str, panel: str = "full") -> str:
    """Return the whole page."""
    title = html.escape(f"{source}: audit of a classifier's outputs")
    body = "\n".join(_section(audit, number, len(audits)) for number, audit in enumerate(audits))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="fedveil {html.escape(__version__)}">
<title>{title}</title>
<style>
{_style()}
</style>
</head>
<body>
<header class="masthead">
<p class="kicker">fedveil audit</p>
<h1><bdi>{html.escape(source)}</bdi></h1>
<p class="question">Do this classifier’s scores for <bdi>{html.escape(audits[0].target)}</bdi> carry
{_listed([audit.attribute for audit in audits])}?</p>
</header>
<main>
{body}
{_meaning()}
{_facts(audits, source, panel)}
</main>
</body>
</html>
"""


def _section(audit: Audit, number: int, of: int) -> str:
    heading = f"<h2><bdi>{html.escape(audit.attribute)}</bdi></h2>" if of > 1 else '<h2 class="hidden">Answer</h2>'
    evidence = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in audit.evidence)
    s, y = html.escape(audit.attribute), html.escape(audit.target)
    return f"""<section aria-label="{s}" id="attribute-{number}">
{heading}
<p class="verdict {audit.verdict}">{audit.verdict.upper()}</p>
<p class="words">{html.escape(audit.meaning)}</p>
<ul class="evidence">{evidence}</ul>
<h3>What the scores say</h3>
{_chart(_bars(audit))}
<p class="lead">Bars are estimates, whiskers their {100 * audit.confidence:.4g}% intervals, and dashed lines what to
compare them with. Bits are shown as shares of the {audit.explained.entropy:.3f} bits that <bdi>{s}</bdi> has. An
unexplained excess above its limit is more than classifiers trained for <bdi>{y}</bdi> alone leave behind.</p>
<h3>How certain the outputs are, by value of <bdi>{s}</bdi></h3>
{_histograms(audit.entropy, len(COLOURS))}
<p class="lead">Entropy of each record’s probabilities; dashed: the mean. {_entropy_in_words(audit.entropy)}</p>
<h3>Who read <bdi>{s}</bdi> from the scores</h3>
{_attackers(audit)}
</section>"""


def _bars(audit: Audit) -> list[_Bar]:
    s, y, bits = audit.attribute, audit.target, audit.explained.entropy
    chance, worst = 1 / len(audit.judgement.classes), audit.judgement.worst
    scores, both = audit.judgement.mutual_information_bits, audit.explained.by_both
    excess, rest = audit.beyond.bits, audit.beyond.unexplained
    tells = audit.limits.tells
    return [
        _Bar(f"Honesty: {y} predicted right", "accuracy", audit.honesty, percent(audit.honesty), audit.target_prior,
            "most frequent value", "honesty"),
        _Bar(f"Curiosity: {s} guessed right", f"balanced accuracy, {worst.name}", worst.balanced_accuracy,
            percent(worst.balanced_accuracy), chance, "guessing", "curiosity"),
        _Bar(f"Scores reveal {s}", "bits", _part(scores, bits), f"{scores} bits", tells, "notable", "curiosity"),
        _Bar(f"Explained by {y} and its prediction", "bits", _part(both, bits), f"{both} bits", tells, "notable",
            "labels"),
        _Bar("Excess: scores beyond both labels", "bits", _part(excess, bits), f"{excess} bits", tells, "notable",
            "excess"),
        _Bar("Unexplained excess", "bits, without what an honest score reveals", _part(rest, bits), f"{rest} bits",
            audit.limit / bits, f"limit, {audit.limit:.3f} bits", "excess"),
    ]  # fmt: skip


def _chart(bars: Sequence[_Bar]) -> str:
    """Draw figures between 0 and 1, one below the other, each with its interval and its mark."""
    rows = [
        f'<div class="bar"><p class="bar-label">{html.escape(bar.label)}<span>{html.escape(bar.note)}</span></p>'
        f'<div class="bar-track">{_track(bar)}</div><p class="bar-figure">{html.escape(bar.shown)}</p></div>'
        for bar in bars
    ]
    ticks = "".join(f'<text x="{tick}%" y="11" text-anchor="{_anchor(tick)}">{tick}%</text>' for tick in _TICKS)
    axis = (
        '<div class="bar axis"><p class="bar-label"></p><div class="bar-track">'
        f'<svg width="100%" height="14" aria-hidden="true">{ticks}</svg></div><p class="bar-figure"></p></div>'
    )
    return f'<div class="bars" role="group" aria-label="Shares with intervals">{"".join(rows)}{axis}</div>'


def _track(bar: _Bar) -> str:
    low, point, high, mark = (
        100 * min(1.0, max(0.0, x)) for x in (bar.share.low, bar.share.estimate, bar.share.high, bar.mark)
    )
    label = html.escape(f"{bar.label}: {bar.shown}; {bar.mark_name} {100 * bar.mark:.1f}%")
    grid = "".join(f'<line class="grid" x1="{tick}%" x2="{tick}%" y1="0" y2="30"/>' for tick in _TICKS)
    return (
        f'<svg width="100%" height="46" role="img" aria-label="{label}">{grid}'
        f'<rect class="fill {bar.kind}" x="0" y="9" width="{point:.3f}%" height="12"/>'
        f'<line class="whisker" x1="{low:.3f}%" x2="{high:.3f}%" y1="15" y2="15"/>'
        f'<line class="whisker" x1="{low:.3f}%" x2="{low:.3f}%" y1="10" y2="20"/>'
        f'<line class="whisker" x1="{high:.3f}%" x2="{high:.3f}%" y1="10" y2="20"/>'
        f'<line class="mark-line" x1="{mark:.3f}%" x2="{mark:.3f}%" y1="2" y2="30"/>'
        f'<text x="{mark:.3f}%" y="42" text-anchor="{_anchor(mark)}">{html.escape(bar.mark_name)}</text></svg>'
    )


def _anchor(percent: float) -> str:
    return "start" if percent < 12 else "end" if percent > 88 else "middle"


def _histograms(entropy: OutputEntropy, colours: int) -> str:
    """Draw how certain the classifier is: a histogram of output entropy for each value of s, all on one scale."""
    totals = [max(1, sum(row)) for row in entropy.counts]
    top = max(count / total for row, total in zip(entropy.counts, totals, strict=True) for count in row)
    parts = []
    for k, (value, mean) in enumerate(entropy.by_value.items()):
        width = 100 / len(entropy.counts[k])
        bars = "".join(
            f'<rect class="fill value{k % colours}" x="{column * width + 0.2:.3f}%" width="{width - 0.4:.3f}%" '
            f'y="{_HEIGHT * (1 - count / totals[k] / top):.2f}" height="{_HEIGHT * count / totals[k] / top:.2f}"/>'
            for column, count in enumerate(entropy.counts[k])
        )
        position = 100 * mean.estimate / entropy.most
        label = f"{value}: {totals[k]:,} records, mean {mean} bits"
        parts.append(
            f'<figure class="histogram"><figcaption><bdi>{html.escape(value)}</bdi>: {totals[k]:,} records, mean '
            f"{html.escape(str(mean))} bits</figcaption>"
            f'<svg width="100%" height="{_HEIGHT + 18}" role="img" aria-label="{html.escape(label)}">{bars}'
            f'<line class="rule" x1="0" x2="100%" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
            f'<line class="mark-line" x1="{position:.3f}%" x2="{position:.3f}%" y1="0" y2="{_HEIGHT}"/>'
            f'<text x="0" y="{_HEIGHT + 14}">0 (certain)</text>'
            f'<text x="100%" y="{_HEIGHT + 14}" text-anchor="end">{entropy.most:.2f} bits</text></svg></figure>'
        )
    return f'<div class="histograms">{"".join(parts)}</div>'


def _attackers(audit: Audit) -> str:
    judgement = audit.judgement
    head = ("balanced accuracy", "accuracy", "AUC", "advantage", "bits")
    rows = []
    for trial in judgement.attackers:
        figures = (trial.balanced_accuracy, trial.accuracy, trial.auc, trial.advantage, trial.mutual_information_bits)
        cells = "".join(f'<td class="number">{_figure(figure)}</td>' for figure in figures)
        rows.append(f'<tr><th scope="row"><bdi>{html.escape(trial.name)}</bdi></th>{cells}</tr>')
    guess = (f"{1 / len(judgement.classes):.3f}", f"{judgement.prior.estimate:.3f}", "0.500", "0.000", "0.000")
    rows.append(
        '<tr><th scope="row">(guessing)</th>' + "".join(f'<td class="number">{g}</td>' for g in guess) + "</tr>"
    )
    titles = "".join(f'<th scope="col" class="number">{name}</th>' for name in head)
    return f"""<div class="scroll" tabindex="0" role="region" aria-label="Attackers"><table>
<thead><tr><th scope="col">attacker</th>{titles}</tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>
<p class="lead">Trained on {judgement.n[0]:,} records, chosen on {judgement.n[1]:,}, tried on {judgement.n[2]:,} that
none of them had seen; strongest by validation first. The prior, {judgement.prior.estimate:.3f}, is the accuracy of
always guessing the most frequent value. The excess is measured by separate attackers, which know both labels and are
tried on all {audit.n:,} records, half by half.</p>"""


def _entropy_in_words(entropy: OutputEntropy) -> str:
    above = f" {100 * entropy.above_one_bit:.1f}% lie above 1 bit," if entropy.most > 1 else ""
    return (
        f"Of all records{above} {100 * entropy.near_zero:.1f}% lie near 0 and {100 * entropy.near_most:.1f}% near the "
        f"maximum of {entropy.most:.2f}. The means of the values differ by {entropy.difference} bits. A difference may "
        "be a code; it may also mean that one value is harder to classify."
    )


def _meaning() -> str:
    caveats = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in _CAVEATS)
    return f"""<section aria-label="What the verdict means">
<h2>What the verdict means, and what it does not</h2>
<p class="lead"><strong>Curious</strong>: the scores carry more about the attribute than the true and the predicted
label explain, and than a graded score of a correlated target reveals honestly, by more than the limit.
<strong>Correlated</strong>: they reveal it, and the labels explain it. <strong>Standard</strong>: neither.
<strong>Undecided</strong>: the interval of what is unexplained contains the limit, or there are fewer than
{LEAST_ROWS} rows, or more is unexplained than overlearning leaves, but a correlation may explain it, or scores have
more than two decimals, below which a code could be hidden: rounding (<code>--round 2</code>) settles that.</p>
<ul class="limits-of">{caveats}</ul>
</section>"""


def _facts(audits: Sequence[Audit], source: str, panel: str) -> str:
    first = audits[0]
    facts = {
        "File": source,
        "Records": f"{first.n:,}" + (f" ({first.unlabelled:,} more lack the attribute)" if first.unlabelled else ""),
        "Target": f"{first.target}, values {', '.join(first.classes[:20])}",
        "Attributes": "; ".join(f"{audit.attribute} ({', '.join(audit.judgement.classes[:20])})" for audit in audits),
        "Scores": _scores(first),
        "Groups": "none" if first.judgement.groups is None else f"{first.judgement.groups:,} among those attacked",
        "Panel": panel,
        "Intervals": f"{100 * first.confidence:.4g}%",
        "Limit": f"{100 * first.limits.share(first.explained, first.finer):.3g}% of what the labels leave open for "
        f"{first.attribute}, at least {first.limits.excess_bits:g} bits; {first.limits.provenance}",
        "Seed": str(first.seed),
        "Written by": f"fedveil {__version__}",
    }
    listed = "".join(f"<dt>{name}</dt><dd><bdi>{html.escape(value)}</bdi></dd>" for name, value in facts.items())
    return f"""<section aria-label="How it was run">
<h2>How it was run</h2>
<dl class="facts">{listed}</dl>
</section>"""


def _scores(audit: Audit) -> str:
    kind = "raw (logits)" if audit.raw else "probabilities"
    return kind if audit.decimals is None else f"{kind}, rounded to {audit.decimals} decimals for this audit"


def _style() -> str:
    """Return the report's style and the audit's additions: colours follow the reader's theme, and print is on white."""
    added = files("fedveil").joinpath("audit/page.css").read_text(encoding="utf-8")
    shared = files("fedveil").joinpath("report/style.css").read_text(encoding="utf-8")
    light, dark = ("".join(f"--c{k}: {pair[side]}; " for k, pair in enumerate(COLOURS)) for side in (0, 1))
    light, dark = f"{light}--alarm: #8f1d1d; --alarm-wash: #fdeaea;", f"{dark}--alarm: #ffa8a8; --alarm-wash: #361717;"
    return (
        f"{shared}\n:root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root:root {{ {light} --alarm-wash: #fff; }} }}\n{added}"
    ).replace("\r\n", "\n")


def _listed(names: Sequence[str]) -> str:
    shown = [f"<bdi>{html.escape(name)}</bdi>" for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _part(figure: Estimate, whole: float) -> Estimate:
    return Estimate(figure.estimate / whole, figure.low / whole, figure.high / whole, figure.confidence)


def _figure(figure: Estimate) -> str:
    return f'{figure.estimate:.3f} <span class="interval">[{figure.low:.3f}, {figure.high:.3f}]</span>'
