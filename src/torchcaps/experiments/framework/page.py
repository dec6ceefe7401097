"""CLAIMS.md and the tables of verdicts in the READMEs, made from the records of claims and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchcaps.experiments.framework.report import capitalize_first
from torchcaps.experiments.framework.storage import read_json, write_text
from torchcaps.experiments.framework.study import Claim

HEAD = """# Claims

What the papers and essays say about capsules, and what came out when it was tried here. Each row is the full
form of an experiment with several seeds, as it wrote it to `claims/*.json`; this page is made from those
files by `torchcaps claims`. Numbers are mean ± standard deviation over seeds, and all values are in the
files. A claim that does not hold is a result too.

"""
COLUMNS = ("claim", "source", "verdict", "published", "hours", "command", "figure")
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
NEEDED = (
    "name",
    "claim",
    "source",
    "data",
    "command",
    "commit",
    "changed",
    "seeds",
    "hours",
    "verdicts",
    "published",
    "numbers",
    "figure",
    "environment",
)
VERDICTS = {True: "holds", False: "does not hold", None: "holds in part"}
ANSWERS = {True: "yes", False: "no", None: "in part"}


class Words(NamedTuple):
    """The words of the short table in one language.

    Attributes:
        columns: headings.
        verdicts: by answer.
        seeds: the number of seeds, with `{}` for the number.
        more: the sentence on claims without a record, with `{}` for their names.
        none: the sentence if no claim has a record.
    """

    columns: tuple[str, str, str]
    verdicts: dict[bool | None, str]
    seeds: str
    more: str
    none: str


ENGLISH = Words(
    ("claim", "verdict", "numbers"),
    VERDICTS,
    "{} seeds",
    "Not run in full yet: {}.",
    "No claim has been run in full with several seeds yet.",
)
CHINESE = Words(
    ("论断", "结论", "数值"),
    {True: "成立", False: "不成立", None: "部分成立"},
    "{} 个随机种子",
    "尚未完整运行：{}。",
    "还没有论断用多个随机种子完整运行过。",
)
READMES = {"README.md": ENGLISH, "README.zh-CN.md": CHINESE}


def claims_page(claims: Sequence[Claim], folder: str | Path) -> str:
    """The page: one row for each claim.

    Args:
        claims: all claims, in the order of the page.
        folder: of the records.
    """
    records = read_records(claims, folder)
    rows = [page_row(claim, records.get(claim.name), Path(folder).name) for claim in claims]
    return HEAD + markdown(COLUMNS, rows)


def short_table(claims: Sequence[Claim], folder: str | Path, words: Words = ENGLISH) -> str:
    """The table of verdicts of a README: the claims that have a record, and the names of the others."""
    records = read_records(claims, folder)
    rows = []
    for claim in claims:
        if claim.name not in records:
            continue
        verdict = main_verdict(records[claim.name])
        count = len(records[claim.name]["seeds"])
        seeds = f" ({words.seeds.format(count)})" if count > 1 else ""
        rows.append(
            [
                f"[`{claim.name}`](CLAIMS.md): {claim.claim}",
                words.verdicts[verdict["holds"]],
                first_sentence(verdict["sentence"]) + seeds,
            ]
        )
    missing = ", ".join(f"`{claim.name}`" for claim in claims if claim.name not in records)
    if not rows:
        return words.none + "\n"
    return markdown(words.columns, rows) + (f"\n{words.more.format(missing)}\n" if missing else "")


def read_records(claims: Sequence[Claim], folder: str | Path) -> dict[str, dict[str, Any]]:
    """All records of a folder, by name.

    Raises:
        ValueError: a file is not a record, or there is no claim of its name.
    """
    names = {claim.name for claim in claims}
    records = {}
    for path in sorted(Path(folder).glob("*.json")):
        try:
            record = read_json(path, *NEEDED)
            main_verdict(record)
            known = record["name"] == path.stem in names
        except (LookupError, TypeError, ValueError):
            known = False
        if not known:
            raise ValueError(
                f"{path} is not the record of a claim: write it with torchcaps reproduce {path.stem} --record"
            )
        records[path.stem] = record
    return records


def main_verdict(record: dict[str, Any]) -> dict[str, Any]:
    """The verdict on the claim itself; without one, the first verdict."""
    own = [verdict for verdict in record["verdicts"] if not verdict["question"]]
    return (own or record["verdicts"])[0]


def page_row(claim: Claim, record: dict[str, Any] | None, folder: str) -> list[str]:
    """A claim, with its record or without."""
    first = f"`{claim.name}`: {capitalize_first(claim.claim)}"
    if record is None:
        command = f"`torchcaps reproduce {claim.name} --record`"
        return [first, claim.source, "not run yet", claim.published or "–", "–", command, "–"]
    count = len(record["seeds"])
    seeds = "same for every seed" if count == 1 else f"{count} seeds"
    commit = f"commit {record['commit'][:7]}" if record["commit"] else "installed package"
    changed = " with changes that were not committed" if record["changed"] else ""
    figure = record["figure"]
    image = f'<a href="{folder}/{figure}"><img src="{folder}/{figure}" width="220" alt="{claim.name}"></a>'
    return [
        first,
        claim.source,
        "<br>".join(verdict_text(verdict) for verdict in record["verdicts"])
        + f" ({seeds}; {record['data']})",
        "; ".join(record["published"]) or "–",
        f"{record['hours']:.2g}",
        f"`{record['command']}` ({commit}{changed})",
        image if figure else "–",
    ]


def verdict_text(verdict: dict[str, Any]) -> str:
    """A verdict in a cell of the page.

    >>> verdict_text({"holds": False, "question": "Is routing the reason?", "sentence": "It is 3 %."})
    '**Is routing the reason?** **no**: It is 3 %.'
    """
    if verdict["question"]:
        return f"**{verdict['question']}** **{ANSWERS[verdict['holds']]}**: {verdict['sentence']}"
    return f"**{VERDICTS[verdict['holds']]}**: {verdict['sentence']}"


def first_sentence(text: str) -> str:
    """The first sentence of a verdict that has a number with a unit or a deviation; a short one goes with it.

    >>> first_sentence("Holds for 3 of 3 seeds. Capsules have 5.2 ± 0.1 %. The CNN has 8.1 %.")
    'Holds for 3 of 3 seeds. Capsules have 5.2 ± 0.1 %.'
    """
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z(])", text)
    last = 1 if len(sentences) > 1 and re.match(r"(Holds|Yes) for \d", sentences[0]) else 0
    return " ".join(sentences[: last + 1])


def write_pages(claims: Sequence[Claim], root: Path, folder: Path) -> list[Path]:
    """Write CLAIMS.md, and the table between the marks of each README.

    Returns:
        The files written.

    Raises:
        ValueError: a README has no marks.
    """
    written = [root / "CLAIMS.md"]
    texts = {root / "CLAIMS.md": claims_page(claims, folder)}
    for name, words in READMES.items():
        path = root / name
        if path.is_file():
            texts[path] = with_section(path, short_table(claims, folder, words))
            written.append(path)
    for path, text in texts.items():
        write_text(path, text)
    return written


def with_section(path: Path, section: str) -> str:
    """The text of a file with another section between the marks."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {BEGIN} and {END}, between which the table of verdicts goes")
    return f"{before}{BEGIN}\n{section}{END}{after}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; bars inside of cells are escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |\n"
        for line in lines
    )
