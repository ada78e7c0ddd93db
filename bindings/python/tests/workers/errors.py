# SPDX-License-Identifier: Apache-2.0
"""For workers that check that something is refused."""


def raises(error, text, function, *args, **kwargs):
    """Calls the function, which must raise this class of error, with this in its text; the error."""
    try:
        function(*args, **kwargs)
    except error as found:
        assert text in str(found), (text, found)
        return found
    raise AssertionError(f"no {error}: {text}")
