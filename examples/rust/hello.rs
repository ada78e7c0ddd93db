// SPDX-License-Identifier: Apache-2.0
//! Every rank says who and where it is: `horovodrun -np 2 build-rust/debug/hello`.

use hvd::Context;

fn main() -> hvd::Result<()> {
    let job = Context::init()?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    println!("rank {} of {} on {}", job.rank(), job.size(), host.trim());
    Ok(())
}
