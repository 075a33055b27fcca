"""Gather the pages of the site, which Sphinx reads, in a folder: `python docs/gather_site.py DIR`.

Pages lie where somebody who reads the repository looks for them: READMEs beside the packages,
notebooks in their folder. On the site they lie together, and links among them go to the pages
there. What a link leads to outside of the site (a file of the source) is named and not linked.
The reference is written from the packages themselves; see `reference.py`. Diagrams are drawn in the
browser by Mermaid, whose script is a second argument; without it pages show how they are written.
"""

from __future__ import annotations

import html
import json
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import reference

ROOT: Final = Path(__file__).parents[1]
PROSE: Final = {
    "README.md": "overview.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "docs/README.md": "how-it-works.md",
    "docs/search.md": "the-search.md",  # search.html is what Sphinx calls its own page
    "tensorir/README.md": "packages/tensorir.md",
    "schedule/README.md": "packages/schedule.md",
    "codegen/README.md": "packages/codegen.md",
    "search/README.md": "packages/search.md",
}
"""The pages that have another place on the site than in the repository."""
MADE: Final = (
    "reference/index.md",
    "reference/primitives.md",
    *(f"reference/{name}.md" for name in reference.MODULES),
)
"""The pages that are written here."""
_GUIDES: Final = "\nguides/coming-from-tvm\n"
_LINK: Final = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
_DIAGRAM: Final = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
_SCRIPT: Final = "mermaid.min.js"
_CODE: Final = re.compile(r"(```.*?```|~~~.*?~~~)", re.DOTALL)


def places() -> dict[str, str]:
    """Return where each page and picture of the repository lies on the site."""
    found = dict(PROSE)
    for path in sorted((ROOT / "docs").rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in (".md", ".png", ".svg") and "_build" not in path.parts:
            found.setdefault(name, name.removeprefix("docs/"))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        found[f"notebooks/{path.name}"] = f"notebooks/{path.name}"
    there = {name: place for name, place in found.items() if (ROOT / name).exists()}
    return {**there, **{f"docs/{page}": page for page in MADE}}


def relinked(text: str, page: str, site: dict[str, str]) -> str:
    """Return the text of a page of the repository with links as they are on the site."""

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if not target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        place = site.get(path) or site.get(f"{path}/README.md")
        if place is None:
            return words
        here = posixpath.dirname(site[page])
        return f"[{words}]({posixpath.relpath(place, here or '.')}{anchor})"

    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def with_diagrams(text: str, place: str) -> str:
    """Return the text of a page with diagrams for the browser to draw, and the script for it."""
    script = posixpath.relpath(f"_static/{_SCRIPT}", posixpath.dirname(place) or ".")

    def diagram(found: re.Match[str]) -> str:
        shown = f'<pre class="mermaid">\n{html.escape(found[1])}</pre>'
        return f"```{{raw}} html\n{shown}\n```"

    made, count = _DIAGRAM.subn(diagram, text)
    loads = f'\n```{{raw}} html\n<script src="{script}"></script>\n```\n'
    return made + loads if count else text


def notebook(text: str, page: str, site: dict[str, str]) -> str:
    """Return a notebook with links as they are on the site."""
    data = json.loads(text)
    for cell in data["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = relinked("".join(cell["source"]), page, site)
    return json.dumps(data)


def _list_the_rest(index: Path, pages: Iterable[str]) -> None:
    """Put pages that no list of the first page names into its list of guides."""
    text = index.read_text()
    named = set(re.findall(r"^(?:.* <)?([\w/.-]+)>?$", text, re.MULTILINE))
    own = {page.removesuffix(".md") for page in {*pages} - {*MADE} if page.endswith(".md")}
    rest = sorted(own - named - {"index"})
    index.write_text(text.replace(_GUIDES, _GUIDES + "".join(f"{page}\n" for page in rest)))


def gather(folder: Path, script: Path | None = None) -> None:
    """Write all pages to a folder, in place of what is there; `script` draws diagrams."""
    if folder.exists():
        shutil.rmtree(folder)
    site = places()
    for page, place in site.items():
        if place in MADE:
            continue
        goal = folder / place
        goal.parent.mkdir(parents=True, exist_ok=True)
        source = ROOT / page
        if source.suffix == ".md":
            text = relinked(source.read_text(), page, site)
            if script is None:
                text = text.replace("```mermaid\n", "```text\n")
            goal.write_text(with_diagrams(text, place) if script else text)
        elif source.suffix == ".ipynb":
            goal.write_text(notebook(source.read_text(), page, site))
        else:
            shutil.copy(source, goal)
    _list_the_rest(folder / "index.md", site.values())
    (folder / "reference").mkdir(exist_ok=True)
    (folder / "reference" / "primitives.md").write_text(reference.primitives_page())
    (folder / "reference" / "index.md").write_text(reference.index_page())
    for name in reference.MODULES:
        (folder / "reference" / f"{name}.md").write_text(reference.module_page(name))
    shutil.copy(ROOT / "docs" / "conf.py", folder / "conf.py")
    (folder / "_static").mkdir()
    if script is not None:
        shutil.copy(script, folder / "_static" / _SCRIPT)


if __name__ == "__main__":
    os.environ.setdefault("TENSORIR_HOST", "measured=no")
    gather(Path(sys.argv[1]), *map(Path, sys.argv[2:3]))
