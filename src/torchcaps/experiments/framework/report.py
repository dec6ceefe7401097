"""The report of an experiment as one HTML file that needs no other file, script or server."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from torchcaps.experiments.framework.formatting import format_columns, is_number
from torchcaps.experiments.framework.items import Figure, ReportItem, Table, Text, Verdict
from torchcaps.experiments.framework.study import Claim

MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif"}
VERDICT_CLASSES = {True: "holds", False: "fails", None: "partly"}
TERMS = (
    "A capsule describes a part or an object by a pose, such as its position and size; its vote is the pose "
    "that it predicts for a capsule of the next layer, a parent. Routing finds in a few iterations where "
    "votes agree, and gives each capsule couplings, its shares among the parents; with uniform couplings, "
    "which are all equal, there is no routing."
)
# Papers that reports name, by a phrase of their title, and where they can be read.
PAPERS = {
    "Dynamic Routing Between Capsules": "https://arxiv.org/abs/1710.09829",
    "Matrix capsules with EM routing": "https://openreview.net/forum?id=HJWLfGWRb",
    "Capsule network is not more robust than convolutional network": "https://arxiv.org/abs/2103.15459",
    "A delicious capsule feast": "https://kexue.fm/archives/4819",
}


def report_html(claim: Claim, result: dict[str, Any], items: Sequence[ReportItem]) -> str:
    """The whole page: verdicts first, then all other items in their order."""
    form = "quick form, on small data" if result["quick"] else "full form"
    if len(result.get("seeds", ())) > 1:
        form += f", {len(result['seeds'])} seeds"
    header = f"""<p class="kind">torchcaps · {escape(form)}</p>
<h1>{text_html(capitalize_first(claim.claim))}</h1>
<p class="source">{source_html(claim.source)}</p>
<p class="data">Data: {text_html(result["data"])}</p>"""
    return page_html(claim.name, header, items, footer_html(claim, result))


def page_html(title: str, header: str, items: Sequence[ReportItem], footer: str, *, style: str = "") -> str:
    """A page: header, terms, verdicts, all other items in their order, footer.

    Args:
        title: of the browser's window.
        header: HTML.
        items: of the report.
        footer: HTML.
        style: CSS that this page has beside that of all reports.
    """
    verdicts = [item for item in items if isinstance(item, Verdict)]
    others = [item for item in items if not isinstance(item, Verdict)]
    common = files("torchcaps.experiments.framework").joinpath("report.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} · torchcaps</title>
<style>
{common}{style}</style>
</head>
<body>
<main>
<header>
{header}
</header>
<p class="terms">{text_html(TERMS)}</p>
{"".join(map(verdict_html, verdicts))}
{"".join(map(item_html, others))}
{footer}
</main>
</body>
</html>
"""


def item_html(item: ReportItem) -> str:
    """A table, a figure or a paragraph."""
    if isinstance(item, Table):
        return table_html(item)
    if isinstance(item, Figure):
        return figure_html(item)
    assert isinstance(item, Text)
    return f"<p>{text_html(item.text)}</p>\n"


def verdict_html(verdict: Verdict) -> str:
    """A verdict, in a box with the color of its answer."""
    return (
        f'<section class="verdict {VERDICT_CLASSES[verdict.holds]}"><h2>{text_html(verdict.heading)}</h2>'
        f"<p>{text_html(verdict.sentence)}</p></section>\n"
    )


def table_html(table: Table) -> str:
    """A table with its title and caption; on a narrow screen it can be scrolled sideways."""
    columns = list(zip(*table.rows)) or [() for _ in table.columns]
    head = "".join(
        f'<th scope="col"{number_class(any(map(is_number, cells)))}>{text_html(column)}</th>'
        for column, cells in zip(table.columns, columns)
    )
    rows = []
    for number, (row, texts) in enumerate(zip(table.rows, zip(*format_columns(table.columns, columns)))):
        mark = ' class="marked"' if number in table.marked else ""
        cells = "".join(map(cell_html, row[1:], texts[1:]))
        rows.append(f'<tr{mark}><th scope="row">{text_html(texts[0])}</th>{cells}</tr>')
    return (
        f"<section><h2>{text_html(table.title)}</h2>\n"
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>\n"
        f'<p class="caption">{text_html(table.caption)}</p></section>\n'
    )


def cell_html(value: Any, text: str) -> str:
    """A table cell; numbers are aligned to the right."""
    return f"<td{number_class(value is None or is_number(value))}>{text_html(text)}</td>"


def number_class(numeric: bool) -> str:
    """The attribute that aligns a cell to the right."""
    return ' class="number"' if numeric else ""


def text_html(text: str) -> str:
    """Escaped text, with a space before `%` at which no line can break.

    >>> text_html("99 % < all") == "99\N{NO-BREAK SPACE}% &lt; all"
    True
    """
    return escape(text.replace(" %", "\N{NO-BREAK SPACE}%"))


def source_html(source: str) -> str:
    """The source of a claim, with links to the papers that it names.

    >>> source_html("Sabour et al., “Dynamic routing between capsules” (2017)")
    'Sabour et al., “<a href="https://arxiv.org/abs/1710.09829">Dynamic routing between capsules</a>” (2017)'
    """
    text = escape(source)
    for title, address in PAPERS.items():
        text = re.sub(re.escape(escape(title)), rf'<a href="{address}">\g<0></a>', text, flags=re.IGNORECASE)
    return text


def figure_html(figure: Figure) -> str:
    """An image inside the page, on a light background so that it is readable in dark mode too."""
    data = b64encode(Path(figure.path).read_bytes()).decode()
    media_type = MEDIA_TYPES[figure.path.suffix]
    return (
        f'<figure><div class="paper"><img alt="{escape(figure.caption)}" '
        f'src="data:{media_type};base64,{data}">'
        f'</div><figcaption class="caption">{text_html(figure.caption)}</figcaption></figure>\n'
    )


def footer_html(claim: Claim, result: dict[str, Any]) -> str:
    """The command, machine and versions that the numbers come from."""
    command = f"torchcaps reproduce {claim.name}" + " --quick" * result["quick"]
    if "seeds" in result:
        command += f" --seeds {len(result['seeds'])}"
    elif result["seed"]:
        command += f" --seed {result['seed']}"
    return origin_html(command, result["seconds"], result["environment"], "numbers, recipes", "result.json")


def origin_html(command: str, seconds: float, environment: dict[str, Any], content: str, file: str) -> str:
    """A footer: how and where the numbers of a page were made.

    Args:
        command: that makes them again.
        seconds: that it took.
        environment: of `describe_environment`.
        content: what else is recorded, beside the versions.
        file: that holds it, in the folder of the page.
    """
    threads = environment["threads"]
    machine = f"{environment['processor']}, {threads} thread{'s' * (threads != 1)}"
    versions = f"torchcaps {environment['torchcaps']}, PyTorch {environment['torch']}"
    return (
        f"<footer><p>Made by <code>{escape(command)}</code> in {seconds / 60:.1f} minutes on "
        f"{escape(machine)}; {escape(versions)}, Python {escape(environment['python'])}, "
        f"{escape(environment['started'])}. All {content} and versions are in "
        f"<code>{escape(file)}</code> beside this page.</p></footer>\n"
    )


def capitalize_first(sentence: str) -> str:
    """A sentence with a capital first letter; other letters stay as they are.

    >>> capitalize_first("routing separates MNIST digits")
    'Routing separates MNIST digits'
    """
    return sentence[:1].upper() + sentence[1:]
