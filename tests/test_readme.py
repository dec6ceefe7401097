import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_every_python_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 3
    shared: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), shared)


def test_both_languages_show_the_same_code() -> None:
    fenced = re.compile(r"```.*?```", flags=re.DOTALL)
    english = fenced.findall(README.read_text(encoding="utf-8"))
    chinese = fenced.findall(README.with_name("README.zh-CN.md").read_text(encoding="utf-8"))
    assert english == chinese
