# SPDX-License-Identifier: Apache-2.0
"""The PyTorch workers of tests/workers in jobs of some sizes; one job runs all that can stand one after another."""

import pytest
from conftest import sizes_of_jobs

pytest.importorskip("torch")

WORKERS = (
    "torch_before_init.py",  # looks at what happens before init, so it is the first
    "torch_ops.py",
    "torch_more_ops.py",
    "wrong_arguments.py",
    "torch_optimizer.py",
    "torch_optimizer_parts.py",
    "torch_optimizer_traps.py",
    "torch_optimizer_copies.py",
    "torch_optimizer_invariant.py",
    "torch_optimizer_ranks.py",
    "torch_bucket_plan.py",
    "random_trainings.py 0 0 25",
    "torch_every_optimizer.py",
    "torch_state.py",
    "elastic_torch.py",
    "torch_sync_bn.py",
    "torch_codecs.py",
    "torch_training.py",
    "torch_overlap.py",
    "torch_bits.py one",
    "documented.py horovod.torch",
)
ONE_RANK_DIFFERS = tuple(f"torch_failures.py {case}" for case in ("shape", "layout", "joined", "rejoined"))
# Random programs that were trained wrongly once.
MENDED = {
    2: tuple(f"random_trainings.py {program} 1" for program in ("7772 592", "400128 174", "400128 271", "410128 30", "650128 374")),
    3: (
        *(f"random_trainings.py {program} 1" for program in ("7773 486", "9913 433", "390228 25", "28123 0", "700228 532", "972128 434")),
        "random_trainings.py 7773 964 4",
    ),
}
JOBS = {ranks: WORKERS + MENDED.get(ranks, ()) + ONE_RANK_DIFFERS * (ranks > 1) for ranks in sizes_of_jobs(on_ctypes=3)}


@pytest.mark.parametrize("ranks, worker", [(ranks, worker) for ranks, workers in JOBS.items() for worker in workers])
def test_worker(in_one_job, native, ranks, worker):
    in_one_job(ranks, JOBS[ranks], worker, native)


def test_alone(alone, native):
    """Without a launcher."""
    workers = WORKERS[:5]
    text = alone("in_turn.py", *workers, native=native, timeout=120).text
    assert all(f"{worker}: done" in text for worker in workers), text


def test_tensors_that_the_native_layer_reads(horovodrun, native):
    assert horovodrun(2, "own_arrays.py", "torch", native=native).text.count("own_arrays: ok") == 2


def test_one_rank_fails(horovodrun, native):
    result = horovodrun(3, "torch_failures.py", "exception", native=native, expect=None, timeout=60)
    assert result.returncode != 0 and "the data of this rank are broken" in result.text, result.text
    assert result.text.count("torch_failures: ok") == 2 and result.text.count("told by step") == 2, result.text


@pytest.mark.parametrize("ranks, case", ((2, "session"), (3, "error"), (3, "others")))
def test_layout_alone_in_a_job(horovodrun, ranks, case, native):
    assert horovodrun(ranks, "torch_bucket_plan.py", case, native=native).text.count("torch_bucket_plan: ok") == ranks


def test_every_rank_is_a_host(horovodrun, native):
    assert horovodrun(3, "torch_bits.py", "hosts", native=native).text.count("torch_bits: ok") == 3
