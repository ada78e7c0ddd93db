# SPDX-License-Identifier: Apache-2.0
"""The Python code in the pages about PyTorch is run with two ranks, section by section."""

import pytest
from conftest import sections_of

torch = pytest.importorskip("torch")
SECTIONS = sections_of("pytorch.md", "torch_distributed.md", "elastic.md")


@pytest.mark.parametrize("section", SECTIONS)
def test_section(in_one_job, section):
    in_one_job(2, SECTIONS, section, env={"KERAS_BACKEND": "torch"})
