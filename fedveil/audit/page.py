"""An audit as one HTML page that needs nothing but itself: no script at all, no connection, everything escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from fedveil import __version__
from fedveil.audit.auditing import Audit
from fedveil.audit.calibration import LEAST_ROWS
from fedveil.audit.charts import Bar, histograms, shares
from fedveil.audit.place import check_place
from fedveil.core.figures import Estimate
from fedveil.core.files import write_atomically
from fedveil.report.marks import COLOURS

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_SAYS_NOT = (
    "It is an estimate against the attackers tried. A cleverer reader, or a code that none of them can learn, may read "
    "more.",
    "It holds for records like these. Others may be treated differently, on purpose even.",
    "It is about this attribute. Another may be carried, or a combination.",
    "It is about these outputs. Whoever wrote the file may serve another model tomorrow.",
    "“Standard” and “correlated” are no proof of innocence, “curious” is none of intent: it says that the scores carry "
    "the attribute, not who wanted them to.",
)


def write_page(audits: Sequence[Audit], out: str | Path, source: str, panel: str = "full") -> Path:
    """Write the page of some audits of one file, worst first, and return where it is."""
    path = Path(out)
    check_place(path)
    write_atomically(path, page(audits, source, panel))
    return path


def page(audits: Sequence[Audit], source: str, panel: str = "full") -> str:
    """Return the whole page."""
    title = html.escape(f"{source}: audit of a classifier's outputs")
    body = "\n".join(_one(audit, number, len(audits)) for number, audit in enumerate(audits))
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
{_run(audits, source, panel)}
</main>
</body>
</html>
"""


def _one(audit: Audit, number: int, of: int) -> str:
    heading = f"<h2><bdi>{html.escape(audit.attribute)}</bdi></h2>" if of > 1 else '<h2 class="hidden">Answer</h2>'
    evidence = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in audit.evidence)
    s, y = html.escape(audit.attribute), html.escape(audit.target)
    return f"""<section aria-label="{s}" id="attribute-{number}">
{heading}
<p class="verdict {audit.verdict}">{audit.verdict.upper()}</p>
<p class="words">{html.escape(audit.meaning)}</p>
<ul class="evidence">{evidence}</ul>
<h3>What the scores say</h3>
{shares(_bars(audit))}
<p class="lead">Bars are estimates, whiskers their {100 * audit.confidence:.4g}% intervals, dashed lines what each is to
be held against. Bits are shown as shares of the {audit.explained.entropy:.3f} bits that <bdi>{s}</bdi> has. Above its
limit an unexplained excess is more than classifiers trained for <bdi>{y}</bdi> alone leave behind.</p>
<h3>How certain the outputs are, by value of <bdi>{s}</bdi></h3>
{histograms(audit.entropy, len(COLOURS))}
<p class="lead">Entropy of each record’s probabilities; dashed: the mean. {_shape(audit)}</p>
<h3>Who read <bdi>{s}</bdi> from the scores</h3>
{_attackers(audit)}
</section>"""


def _bars(audit: Audit) -> list[Bar]:
    s, y, bits = audit.attribute, audit.target, audit.explained.entropy
    chance, worst = 1 / len(audit.judgement.classes), audit.judgement.worst
    told, both = audit.judgement.mutual_information_bits, audit.explained.by_both
    excess, rest = audit.beyond.bits, audit.beyond.unexplained
    tells = audit.limits.tells
    return [
        Bar(f"Honesty: {y} predicted right", "accuracy", audit.honesty, _percent(audit.honesty), audit.target_prior,
            "most frequent value", "honesty"),
        Bar(f"Curiosity: {s} guessed right", f"balanced accuracy, {worst.name}", worst.balanced_accuracy,
            _percent(worst.balanced_accuracy), chance, "guessing", "curiosity"),
        Bar(f"Scores tell {s}", "bits", _part(told, bits), f"{told} bits", tells, "notable", "curiosity"),
        Bar(f"Explained by {y} and its prediction", "bits", _part(both, bits), f"{both} bits", tells, "notable",
            "labels"),
        Bar("Excess: scores beyond both labels", "bits", _part(excess, bits), f"{excess} bits", tells, "notable",
            "excess"),
        Bar("Unexplained excess", "bits, less what an honest score tells", _part(rest, bits), f"{rest} bits",
            audit.limit / bits, f"limit, {audit.limit:.3f} bits", "excess"),
    ]  # fmt: skip


def _attackers(audit: Audit) -> str:
    judgement = audit.judgement
    head = ("balanced accuracy", "accuracy", "AUC", "advantage", "bits")
    rows = []
    for one in judgement.attackers:
        figures = (one.balanced_accuracy, one.accuracy, one.auc, one.advantage, one.mutual_information_bits)
        cells = "".join(f'<td class="number">{_figure(figure)}</td>' for figure in figures)
        rows.append(f'<tr><th scope="row"><bdi>{html.escape(one.name)}</bdi></th>{cells}</tr>')
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
always saying the most frequent value. The excess is measured by attackers of their own, who know both labels and are
tried on all {audit.n:,} records, half by half.</p>"""


def _shape(audit: Audit) -> str:
    shape = audit.entropy
    above = f" {100 * shape.above_one_bit:.1f}% lie above 1 bit," if shape.most > 1 else ""
    return (
        f"Of all records{above} {100 * shape.near_zero:.1f}% lie near 0 and {100 * shape.near_most:.1f}% near the "
        f"maximum of {shape.most:.2f}. The means of the values differ by {shape.difference} bits. A difference may be "
        "a code; it may also mean that one value is harder to classify."
    )


def _meaning() -> str:
    says = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in _SAYS_NOT)
    return f"""<section aria-label="What the verdict means">
<h2>What the verdict means, and what it does not</h2>
<p class="lead"><strong>Curious</strong>: the scores carry more about the attribute than the true and the predicted
label explain, and than a graded score of a correlated target tells honestly, by more than the limit.
<strong>Correlated</strong>: they tell it, and the labels explain it. <strong>Standard</strong>: neither.
<strong>Undecided</strong>: the interval of the unexplained excess holds the limit, or there are fewer than
{LEAST_ROWS} rows.</p>
<ul class="limits-of">{says}</ul>
</section>"""


def _run(audits: Sequence[Audit], source: str, panel: str) -> str:
    first = audits[0]
    facts = {
        "File": source,
        "Records": f"{first.n:,}" + (f" ({first.unlabelled:,} more lack the attribute)" if first.unlabelled else ""),
        "Target": f"{first.target}, values {', '.join(first.classes[:20])}",
        "Attributes": "; ".join(f"{one.attribute} ({', '.join(one.judgement.classes[:20])})" for one in audits),
        "Scores": "raw (logits)" if first.raw else "probabilities",
        "Groups": "none" if first.judgement.groups is None else f"{first.judgement.groups:,} among those attacked",
        "Panel": panel,
        "Intervals": f"{100 * first.confidence:.4g}%",
        "Limit": f"{100 * first.limits.excess_share:g}% of what the labels leave open"
        + (f" and {first.limits.ruled_out:g} times the share of s that y tells" if len(first.classes) > 2 else "")
        + f", at least "
        f"{first.limits.excess_bits:g} bits; {first.limits.provenance}",
        "Seed": str(first.seed),
        "Made by": f"fedveil {__version__}",
    }
    listed = "".join(f"<dt>{name}</dt><dd><bdi>{html.escape(value)}</bdi></dd>" for name, value in facts.items())
    return f"""<section aria-label="How it was run">
<h2>How it was run</h2>
<dl class="facts">{listed}</dl>
</section>"""


def _style() -> str:
    """Return the report's style with what an audit adds; colours by the reader's theme, black on white in print."""
    own = files("fedveil").joinpath("audit/page.css").read_text(encoding="utf-8")
    shared = files("fedveil").joinpath("report/style.css").read_text(encoding="utf-8")
    light, dark = ("".join(f"--c{k}: {pair[side]}; " for k, pair in enumerate(COLOURS)) for side in (0, 1))
    light, dark = f"{light}--alarm: #8f1d1d; --alarm-wash: #fdeaea;", f"{dark}--alarm: #ffa8a8; --alarm-wash: #361717;"
    return (
        f"{shared}\n:root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root:root {{ {light} --alarm-wash: #fff; }} }}\n{own}"
    ).replace("\r\n", "\n")


def _listed(names: Sequence[str]) -> str:
    shown = [f"<bdi>{html.escape(name)}</bdi>" for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _part(figure: Estimate, whole: float) -> Estimate:
    return Estimate(figure.estimate / whole, figure.low / whole, figure.high / whole, figure.confidence)


def _percent(figure: Estimate) -> str:
    return f"{100 * figure.estimate:.1f}% [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"


def _figure(figure: Estimate) -> str:
    return f'{figure.estimate:.3f} <span class="interval">[{figure.low:.3f}, {figure.high:.3f}]</span>'
