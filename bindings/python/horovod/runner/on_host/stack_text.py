# SPDX-License-Identifier: Apache-2.0
"""Stacks as a person wants them at first: few frames of the threads that matter. Standard library only, see frames.py.

The main thread comes first, then the threads that are in code of the user's own; the rest is counted.
"""

import re

_MOST_FRAMES, _MOST_OTHERS, _FRAMES_OF_OTHERS = 12, 3, 5
_LIBRARIES = re.compile(r'/lib/python\d|/(site|dist)-packages/|^\s+File "<frozen')
_JAVA_LIBRARIES = re.compile(r"^\s+at (java|javax|jdk|sun|com\.sun|io\.hvd)\.")


class Thread:
    """``title`` without a colon, and ``frames``, the innermost first."""

    def __init__(self, title, is_main):
        self.title, self.is_main, self.frames = title, is_main, []


def shorten(text, language, main_thread=""):
    """Lines to show, and how many threads have been left out."""
    threads = {"python": _python, "java": _java, "native": _native}[language](text, main_thread)
    threads = [thread for thread in threads if thread.frames]
    main = [thread for thread in threads if thread.is_main] or threads[-1:]
    others = [thread for thread in threads if thread not in main and _is_users(thread, language)][:_MOST_OTHERS]
    lines = []
    for thread, most in [(thread, _MOST_FRAMES) for thread in main] + [(thread, _FRAMES_OF_OTHERS) for thread in others]:
        lines.append(f"{thread.title}, most recent call first:")
        lines += _cut(thread.frames, most)
    return lines, len(threads) - len(main) - len(others)


def _cut(frames, most):
    """The innermost frames, and the outermost one, where the program began."""
    if len(frames) <= most:
        return frames
    return [*frames[:most - 2], f"  ... {len(frames) - most + 1} more", frames[-1]]


def _is_users(thread, language):
    if language == "native":
        return False
    libraries = _LIBRARIES if language == "python" else _JAVA_LIBRARIES
    frames = [frame for frame in thread.frames if language == "python" or frame.startswith("  at ")]
    return any(not libraries.search(frame) for frame in frames)


def _python(text, main_thread):
    threads, seen = [], set()
    for line in text.splitlines():
        head = re.match(r"(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):", line)
        if head:
            if head[1] in seen:
                break  # somebody else has asked as well, and the process has answered twice
            seen.add(head[1])
            is_main = head[1] == main_thread
            threads.append(Thread("main thread" if is_main else f"thread {head[2] or head[1]}", is_main))
        elif line.startswith("  ") and threads:
            threads[-1].frames.append(line)
    return threads


def _java(text, _main_thread):
    threads = []
    for line in text.splitlines():
        head = re.match(r'"(.*?)" .*\b(?:tid|nid)=', line)
        if head:
            threads.append(Thread(f'thread "{head[1]}"', head[1] == "main"))
        elif re.match(r"\s+at |\s+- (waiting|locked|parking)", line) and threads:
            threads[-1].frames.append("  " + line.strip())
    return threads


def _native(text, _main_thread):
    threads = []
    for line in text.splitlines():
        head = re.match(r"Thread (\d+) \(.*\):|TID (\d+):", line)
        if head:
            threads.append(Thread("main thread" if head[1] == "1" or (head[2] and not threads) else "thread", False))
            threads[-1].is_main = threads[-1].title == "main thread"
        elif line.startswith("#") and threads:
            threads[-1].frames.append("  " + line)
    return threads
