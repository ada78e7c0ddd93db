# SPDX-License-Identifier: Apache-2.0
"""Opens a trace in speedscope, a viewer of Chrome's trace format, inside of a Chromium without a window.

    python speedscope.py FOLDER TRACE    prints what the viewer says while it reads the file, as JSON; FOLDER is for its files

Needs chromium, and npm to fetch the viewer into FOLDER.
"""

import base64
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

PACKAGE = "speedscope@1.25.0"
_CHROMIUM = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--allow-file-access-from-files",
             "--remote-debugging-pipe", "about:blank"]


class Browser:
    """A Chromium that is told what to do by two pipes, its descriptors 3 and 4: messages in JSON, each followed by a null byte."""

    def __init__(self, folder: Path) -> None:
        read_here, written_there = os.pipe()
        read_there, written_here = os.pipe()
        self._in, self._out = os.fdopen(read_here, "rb", 0), os.fdopen(written_here, "wb", 0)
        redirect = f"exec 3<&{read_there} 4>&{written_there}; exec \"$@\""
        command = ["bash", "-c", redirect, "bash", *_CHROMIUM, f"--user-data-dir={folder}"]
        self.process = subprocess.Popen(command, pass_fds=(read_there, written_there), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_there)
        os.close(written_there)
        self._rest, self._numbers, self._session = b"", itertools.count(1), None
        self.events: list = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **parameters) -> dict:
        """The result of a command; events that come before it are kept."""
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        self._out.write(json.dumps({"id": number, "method": method, "params": parameters, **session}).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == number:
                return message["result"]
            self.events.append(message)

    def _next(self) -> dict:
        while b"\0" not in self._rest:
            piece = self._in.read(1 << 16)
            if not piece:
                raise EOFError("chromium has ended")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


def lines_of(browser: Browser) -> list:
    """What the page has written to its console."""
    calls = [event["params"]["args"] for event in browser.events if event.get("method") == "Runtime.consoleAPICalled"]
    return [" ".join(str(argument.get("value")) for argument in arguments) for arguments in calls]


def main(folder: Path, trace: Path) -> None:
    """Prints {"title": ..., "text": what stands on the page, "lines": [...]}"""
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE], check=True, timeout=100)
    load = folder / "load.js"
    load.write_text(f"speedscope.loadFileFromBase64({json.dumps(trace.name)}, '{base64.b64encode(trace.read_bytes()).decode()}')")
    browser = Browser(folder / "chromium")
    try:
        browser.call("Runtime.enable")
        page = (folder / "node_modules/speedscope/dist/release/index.html").as_uri()
        browser.call("Page.navigate", url=f"{page}#localProfilePath={load}")
        until = time.monotonic() + 60
        title = ""
        while trace.name not in title and time.monotonic() < until:
            time.sleep(0.2)
            title = browser.call("Runtime.evaluate", expression="document.title")["result"]["value"]
        text = browser.call("Runtime.evaluate", expression="document.body.innerText")["result"]["value"]
        print(json.dumps({"title": title, "text": text, "lines": lines_of(browser)}))
    finally:
        browser.process.terminate()
        browser.process.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
