// SPDX-License-Identifier: Apache-2.0
//! Even and odd ranks reduce apart, at the same time: `horovodrun -np 4 build-rust/debug/process_sets`.

use hvd::{Context, OpOptions};

fn main() -> hvd::Result<()> {
    let job = Context::init()?;
    if job.size() < 2 {
        eprintln!("start this with at least 2 ranks: horovodrun -np 4 build-rust/debug/process_sets");
        std::process::exit(1);
    }

    // Every rank creates every set, also those it is not in, in the same order.
    let even = job.create_process_set(&(0..job.size()).step_by(2).collect::<Vec<_>>())?;
    let odd = job.create_process_set(&(1..job.size()).step_by(2).collect::<Vec<_>>())?;
    let mine = if even.is_member() { &even } else { &odd };

    let total = job.allreduce(&[job.rank() as i64], &OpOptions::named("total").on(mine))?;
    let (rank, ranks) = (mine.rank().unwrap_or_default(), mine.ranks());
    println!("rank {} is {rank} of {} in {ranks:?}: sum of the ranks {}", job.rank(), mine.size(), total[0]);
    assert_eq!(total[0], ranks.iter().sum::<usize>() as i64);

    odd.destroy()?;
    even.destroy()
}
