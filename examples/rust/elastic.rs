// SPDX-License-Identifier: Apache-2.0
//! Trains while ranks die and are replaced: `horovodrun -np 3 --min-np 1 build-rust/debug/elastic`. The result is the same whatever
//! happens to the ranks; an argument of 500 makes 500 steps.

use std::time::Duration;

use hvd::elastic::{self, State};
use hvd::{Context, OpOptions, ReduceOp, Result};

#[derive(Clone, Default)]
struct Model {
    weights: [f64; 3],
    step: [i64; 1],
}

impl State for Model {
    fn synchronize(&mut self, job: &Context) -> Result<()> {
        job.broadcast_in_place(&mut self.weights, 0, &OpOptions::named("weights"))?;
        job.broadcast_in_place(&mut self.step, 0, &OpOptions::named("step"))
    }
}

impl Model {
    fn train(&mut self, job: &Context) -> Result<()> {
        let factor = (1 + self.step[0] % 3) as f64;
        let mut gradient: [f64; 3] = std::array::from_fn(|i| (i as f64 * self.weights[i] - 1.0) * factor);
        job.allreduce_in_place(&mut gradient, &OpOptions::named("gradient").reduce(ReduceOp::Average))?;
        for (weight, slope) in self.weights.iter_mut().zip(gradient) {
            *weight -= 0.05 * slope;
        }
        self.step[0] += 1;
        Ok(())
    }
}

fn main() -> Result<()> {
    let steps = std::env::args().nth(1).map_or(40, |text| text.parse().expect("a number of steps"));
    let worker = std::env::var("HOROVOD_WORKER").unwrap_or("-".into());
    println!("worker {worker} pid {}", std::process::id());

    elastic::run(Model::default(), |here| {
        println!("begins at step {}", here.state.step[0]);
        while here.state.step[0] < steps {
            here.state.train(&here.job)?;
            std::thread::sleep(Duration::from_millis(20));
            here.commit()?;
        }
        let weights = here.state.weights.map(|weight| format!(" {weight:.9}")).concat();
        let bits = here.state.weights.map(|weight| format!(" {:016x}", weight.to_bits())).concat();
        println!("came to{weights}, bits{bits}, as rank {} of {}", here.job.rank(), here.job.size());
        Ok(())
    })
}
