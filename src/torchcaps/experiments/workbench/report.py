"""An experiment's report as one HTML file that needs nothing else: no script, no other host."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from torchcaps.experiments.workbench.claim import Claim
from torchcaps.experiments.workbench.found import Figure, Found, Table, Text, Verdict
from torchcaps.experiments.workbench.numerals import column_texts, is_number
from torchcaps.training.publish.page import counted

KINDS = {".svg": "image/svg+xml", ".gif": "image/gif"}
MARKS = {True: "holds", False: "fails", None: "partly"}


def report_html(claim: Claim, result: dict[str, Any], found: Sequence[Found]) -> str:
    """The whole page; the verdicts stand first, then everything in the order it was found."""
    verdicts = [each for each in found if isinstance(each, Verdict)]
    others = [each for each in found if not isinstance(each, Verdict)]
    style = files("torchcaps.experiments.workbench").joinpath("report.css").read_text(encoding="utf-8")
    form = "quick form, on small data" if result["quick"] else "full form"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(claim.name)} · torchcaps</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<p class="kind">torchcaps · {escape(form)}</p>
<h1>{words(capitalised(claim.claim))}</h1>
<p class="source">{escape(claim.source)}</p>
<p class="data">Data: {words(result["data"])}</p>
</header>
{"".join(map(verdict_html, verdicts))}
{"".join(map(found_html, others))}
{origin_html(claim, result)}
</main>
</body>
</html>
"""


def found_html(found: Found) -> str:
    """One part of the report."""
    if isinstance(found, Table):
        return table_html(found)
    if isinstance(found, Figure):
        return figure_html(found)
    assert isinstance(found, Text)
    return f"<p>{words(found.text)}</p>\n"


def verdict_html(verdict: Verdict) -> str:
    """What came out, in a box of its own."""
    return (
        f'<section class="verdict {MARKS[verdict.holds]}"><h2>{words(verdict.heading)}</h2>'
        f"<p>{words(verdict.sentence)}</p></section>\n"
    )


def table_html(table: Table) -> str:
    """A table that scrolls inside itself where the screen is narrow."""
    columns = list(zip(*table.rows)) or [() for _ in table.columns]
    head = "".join(
        f'<th scope="col"{number_class(any(map(is_number, cells)))}>{words(column)}</th>'
        for column, cells in zip(table.columns, columns)
    )
    rows = []
    for number, (row, texts) in enumerate(zip(table.rows, zip(*map(column_texts, columns)))):
        mark = ' class="marked"' if number in table.marked else ""
        cells = "".join(map(cell_html, row[1:], texts[1:]))
        rows.append(f'<tr{mark}><th scope="row">{words(texts[0])}</th>{cells}</tr>')
    return (
        f"<section><h2>{words(table.title)}</h2>\n"
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>\n"
        f'<p class="caption">{words(table.caption)}</p></section>\n'
    )


def cell_html(value: Any, text: str) -> str:
    """A cell of a table; numbers are set to the right."""
    return f"<td{number_class(value is None or is_number(value))}>{words(text)}</td>"


def number_class(numeric: bool) -> str:
    """The attribute that sets a cell to the right."""
    return ' class="number"' if numeric else ""


def words(text: str) -> str:
    """Text for the page, in which no line begins with a lone percent sign.

    >>> words("99 % < all") == "99\N{NO-BREAK SPACE}% &lt; all"
    True
    """
    return escape(text.replace(" %", "\N{NO-BREAK SPACE}%"))


def figure_html(figure: Figure) -> str:
    """A picture inside the page, on paper so that it reads in the dark as well."""
    data = b64encode(Path(figure.path).read_bytes()).decode()
    kind = KINDS[figure.path.suffix]
    return (
        f'<figure><div class="paper"><img alt="{escape(figure.caption)}" src="data:{kind};base64,{data}">'
        f'</div><figcaption class="caption">{words(figure.caption)}</figcaption></figure>\n'
    )


def origin_html(claim: Claim, result: dict[str, Any]) -> str:
    """How the numbers came about, and how to make them again."""
    environment = result["environment"]
    command = f"torchcaps reproduce {claim.name}" + " --quick" * result["quick"]
    command += f" --seed {result['seed']}" if result["seed"] else ""
    where = f"{environment['processor']}, {counted(environment['threads'], 'thread')}"
    versions = f"torchcaps {environment['torchcaps']}, PyTorch {environment['torch']}"
    return (
        f"<footer><p>Made by <code>{escape(command)}</code> in {result['seconds'] / 60:.1f} minutes on "
        f"{escape(where)}; {escape(versions)}, Python {escape(environment['python'])}, "
        f"{escape(environment['started'])}. All numbers, recipes and versions are in "
        f"<code>result.json</code> beside this page.</p></footer>\n"
    )


def capitalised(sentence: str) -> str:
    """A sentence with a capital first letter, the rest untouched.

    >>> capitalised("routing separates MNIST digits")
    'Routing separates MNIST digits'
    """
    return sentence[:1].upper() + sentence[1:]
