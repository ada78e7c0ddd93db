# SPDX-License-Identifier: Apache-2.0
"""The MXNet workers of tests/workers in jobs of 1 to 3 ranks."""

import pytest
from conftest import sections_of

try:
    import mxnet  # noqa: F401
except (ImportError, AttributeError) as error:
    pytest.skip(f"MXNet cannot be imported: {error}", allow_module_level=True)

WORKERS = ("mxnet_ops.py", "mxnet_training.py", "documented.py horovod.mxnet")
SECTIONS = sections_of("mxnet.md")


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("worker", WORKERS)
def test_worker(in_one_job, ranks, worker):
    in_one_job(ranks, WORKERS, worker)


def test_other_native_layer_and_engine(horovodrun):
    env = {"MXNET_ENGINE_TYPE": "NaiveEngine"}
    text = horovodrun(2, "in_turn.py", *WORKERS, native="ctypes", env=env).text
    assert text.count("mxnet_training: ok") == 2, text


def test_killed_rank_is_named(horovodrun):
    result = horovodrun(3, "mxnet_killed.py", expect=None, timeout=240)
    assert result.returncode != 0 and result.text.count("told of the killed rank") == 2, result.text


@pytest.mark.parametrize("section", SECTIONS)
def test_page(in_one_job, section):
    in_one_job(2, SECTIONS, section)
