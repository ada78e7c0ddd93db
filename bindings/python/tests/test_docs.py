# SPDX-License-Identifier: Apache-2.0
"""The Python code in the pages about PyTorch is run with two ranks, section by section."""

import runpy

import pytest
from conftest import WORKERS

torch = pytest.importorskip("torch")
PAGES = ("pytorch.md", "torch_distributed.md")
SECTIONS_OF = runpy.run_path(str(WORKERS / "doc_section.py"))["sections"]
SECTIONS = tuple(f"doc_section.py {page} {title}" for page in PAGES for title in SECTIONS_OF(page))


@pytest.mark.parametrize("section", SECTIONS)
def test_section(in_one_job, section):
    in_one_job(2, SECTIONS, section)
