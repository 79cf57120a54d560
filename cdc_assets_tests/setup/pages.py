"""README and docs/ as blocks of code and as links, for the tests that follow them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

NOT_RUN = "not run by us"
"""Stands in the line above a block that the tests leave out, where a reader sees it, too."""

_FENCE = re.compile(r"^( *)```(\S*)$")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line its code begins in, its language, its code.

    `above` is the last line of text before it.
    """

    page: Path
    line: int
    kind: str
    text: str
    above: str

    @property
    def is_left_out(self) -> bool:
        """Whether the page says that nobody here runs it."""
        return NOT_RUN in self.above.lower()

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """A page's path in the project."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """A page's fenced blocks, in their order."""
    above = ""
    lines = enumerate(page.read_text().splitlines(), 1)
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            above = line if line.strip() else above
            continue
        indent, code = len(fence[1]), []
        for _, inner in lines:
            if inner.strip() == "```":
                break
            code.append(inner[indent:])
        else:
            raise ValueError(f"{name_of(page)}:{number}: the block has no end")
        yield Block(page, number + 1, fence[2], "\n".join(code) + "\n", above)


def prose(page: Path) -> str:
    """A page without its blocks."""
    kept, inside = [], False
    for line in page.read_text().splitlines():
        if line.strip().startswith("```"):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def links(page: Path) -> list[str]:
    """What a page's links and images point at, addresses of other places left out."""
    found = _LINK.findall(re.sub(r"`[^`]*`", "", prose(page)))
    return [target for target in found if "://" not in target and not target.startswith("mailto:")]


def anchors(page: Path) -> set[str]:
    """What `#…` of a page leads somewhere, by the rule that GitHub makes them of headings."""
    found = filter(None, (_HEADING.match(line) for line in prose(page).splitlines()))
    plain = (re.sub(r"[^\w\- ]", "", heading[1].lower()) for heading in found)
    return {text.replace(" ", "-") for text in plain}


def ci_steps() -> list[str]:
    """The commands of `make` that CI runs, in order."""
    text = (ROOT / ".ci" / "run").read_text()
    return re.findall(r"^step(?:_before \d+)? (make .*)$", text, re.MULTILINE)
