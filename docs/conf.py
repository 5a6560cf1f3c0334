"""How the documentation is built; `make docs` takes a warning for an error."""

import tomllib
from pathlib import Path

_PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]

project = "anarchon"
author = "anarchon contributors"
project_copyright = author
version = release = _PROJECT["version"]

extensions = ["myst_parser", "sphinxcontrib.mermaid"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"anarchon {release}"
html_show_sourcelink = False
