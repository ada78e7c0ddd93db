// SPDX-License-Identifier: Apache-2.0
//! Sums an array over all ranks, then averages it in place: `horovodrun -np 2 build-rust/debug/allreduce`.

use hvd::{Context, OpOptions, ReduceOp};

fn main() -> hvd::Result<()> {
    let job = Context::init()?;
    let mut mine = [job.rank() as f32 + 1.0; 4];

    let total = job.allreduce(&mine, &OpOptions::named("total"))?;
    println!("rank {} of {}: sum {:?}", job.rank(), job.size(), &total[..]);

    job.allreduce_in_place(&mut mine, &OpOptions::named("mean").reduce(ReduceOp::Average))?;
    println!("rank {} of {}: mean {mine:?}", job.rank(), job.size());

    let expected = (1..=job.size()).sum::<usize>() as f32;
    assert_eq!(&total[..], [expected; 4]);
    assert_eq!(mine, [expected / job.size() as f32; 4]);
    Ok(())
}
