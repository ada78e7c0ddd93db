// SPDX-License-Identifier: Apache-2.0
//! Reduces several arrays as one operation, and gathers arrays of different lengths: `horovodrun -np 2 build-rust/debug/grouped`.

use hvd::{AnyRef, Context, OpOptions, ReduceOp, Tensor};

fn main() -> hvd::Result<()> {
    let job = Context::init()?;
    let rank = job.rank();
    let gradient = |rows: usize| Tensor::new(vec![rank as f32; rows * 3], &[rows, 3]);
    let gradients = [gradient(1)?, gradient(2)?, gradient(5)?];

    // The group is reduced together or not at all, whatever the order in which the ranks submit other operations.
    let group: Vec<AnyRef> = gradients.iter().map(AnyRef::from).collect();
    let means = job.grouped_allreduce(&group, &OpOptions::named("gradients").reduce(ReduceOp::Average))?;
    let first = means[0].as_slice::<f32>().map_or(0.0, |mean| mean[0]);
    let shapes: Vec<_> = means.iter().map(|mean| format!("({}, {})", mean.shape()[0], mean.shape()[1])).collect();
    println!("rank {rank}: mean of the ranks {first:?}, shapes [{}]", shapes.join(", "));
    assert_eq!(first, (job.size() - 1) as f32 / 2.0);

    // Rank r brings r + 1 rows.
    let mine = Tensor::new(vec![rank as i64; (rank + 1) * 2], &[rank + 1, 2])?;
    let rows = job.allgather(&mine, &OpOptions::named("rows"))?;
    let column: Vec<_> = rows.chunks(2).map(|row| row[0]).collect();
    println!("rank {rank}: gathered {} rows, first column {column:?}", rows.shape()[0]);
    assert_eq!(rows.shape()[0], (1..=job.size()).sum());

    // Asynchronous: start, do something else, then wait.
    let later = job.allreduce_async(vec![0.0, 1.0, 2.0], &OpOptions::named("later"))?;
    println!("rank {rank}: later {:?}", &later.wait()?[..]);
    Ok(())
}
