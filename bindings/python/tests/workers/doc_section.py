# SPDX-License-Identifier: Apache-2.0
"""Runs the Python code of one section of a page in docs: "doc_section.py pytorch.md some-heading".

Code goes on from that of the page's first section, as the page says. Tracebacks name the lines of the page.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[4] / "docs"
PART = re.compile(r"^## (?P<title>[^\n]*)$|^```python\n(?P<code>.*?)^```$", re.M | re.S)


def sections(page):
    """A dict from each heading that is followed by code, as a link names it, to a list of that code."""
    text = (DOCS / page).read_text()
    found, title = {}, ""
    for part in PART.finditer(text):
        if part["title"] is not None:
            title = re.sub(r"[^\w -]", "", part["title"]).lower().replace(" ", "-")
        else:
            above = text.count("\n", 0, part.start("code"))
            found.setdefault(title, []).append(compile("\n" * above + part["code"], str(DOCS / page), "exec"))
    return found


def run(page, title):
    code = sections(page)
    first = next(iter(code))
    names = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder:  # for what the code writes
        os.chdir(folder)
        for block in code[first] + (code[title] if title != first else []):
            exec(block, names)
        os.chdir(DOCS)


def forget():
    """The next section starts as a new process would."""
    import horovod as hvd

    torch = sys.modules.get("torch")
    if torch is not None:
        torch.use_deterministic_algorithms(False)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    run(*sys.argv[1:])
    forget()
    print("doc_section: ok")
