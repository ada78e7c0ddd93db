// SPDX-License-Identifier: Apache-2.0
//! Trains a logistic regression, alone or with several ranks, to the same weights: `horovodrun -np 2 build-rust/debug/train`.
//!
//! Every rank has each size-th sample. In each step the ranks sum up their gradients, so that all go the same way; at the end
//! rank 0 trains on all samples alone and compares.

use hvd::{Context, OpOptions, Result};

const SAMPLES: usize = 600;
const FEATURES: usize = 8;
const STEPS: usize = 200;
const RATE: f64 = 2.0;

type Weights = [f64; FEATURES + 1];
/// The gradient, then loss and correct answers, each summed over some samples.
type Sums = [f64; FEATURES + 3];

/// Inputs between -1 and 1 and the label: whether a plane that the training must find has the sample above it.
fn sample(i: usize) -> ([f64; FEATURES], bool) {
    let inputs = std::array::from_fn(|j| ((i * i * 7 + i * (j + 1) * 31 + j * 57) % 199) as f64 / 99.0 - 1.0);
    let height: f64 = inputs.iter().enumerate().map(|(j, input)| input * (j as f64 - 2.5)).sum();
    (inputs, height > 0.5)
}

fn step(weights: &Weights, numbers: impl Iterator<Item = usize>) -> Sums {
    let mut sums = [0.0; FEATURES + 3];
    for (inputs, above) in numbers.map(sample) {
        let label = f64::from(above);
        let score: f64 = weights[FEATURES] + inputs.iter().zip(weights).map(|(input, weight)| input * weight).sum::<f64>();
        let off = 1.0 / (1.0 + (-score).exp()) - label;
        for (sum, input) in sums.iter_mut().zip(inputs) {
            *sum += off * input;
        }
        sums[FEATURES] += off;
        sums[FEATURES + 1] += (-score.abs()).exp().ln_1p() + score.max(0.0) - label * score;
        sums[FEATURES + 2] += f64::from((score > 0.0) == above);
    }
    sums
}

/// The weights after all steps, with the sums of the last one; `together` adds up those of all ranks.
fn train(
    mut weights: Weights,
    numbers: impl Iterator<Item = usize> + Clone,
    together: impl Fn(&mut Sums) -> Result<()>,
) -> Result<(Weights, Sums)> {
    let mut sums = [0.0; FEATURES + 3];
    for _ in 0..STEPS {
        sums = step(&weights, numbers.clone());
        together(&mut sums)?;
        for (weight, sum) in weights.iter_mut().zip(sums) {
            *weight -= RATE * sum / SAMPLES as f64;
        }
    }
    Ok((weights, sums))
}

fn main() -> Result<()> {
    let job = Context::init()?;
    let (rank, size) = (job.rank(), job.size());

    // The ranks begin differently; then all have what rank 0 has.
    let mut start = [0.01 * (rank + 1) as f64; FEATURES + 1];
    job.broadcast_in_place(&mut start, 0, &OpOptions::named("start"))?;

    let options = OpOptions::named("step");
    let (weights, sums) = train(start, (rank..SAMPLES).step_by(size), |sums| job.allreduce_in_place(sums, &options))?;
    let (loss, accuracy) = (sums[FEATURES + 1] / SAMPLES as f64, sums[FEATURES + 2] / SAMPLES as f64);

    if rank == 0 {
        let ranks = if size > 1 { "ranks" } else { "rank" };
        println!("{size} {ranks}: loss {loss:.6}, accuracy {:.1}%", 100.0 * accuracy);
        let (alone_weights, alone_sums) = train(start, 0..SAMPLES, |_| Ok(()))?;
        let alone = alone_sums[FEATURES + 1] / SAMPLES as f64;
        println!("alone: loss {alone:.6}");
        assert!((loss - alone).abs() < 1e-9);
        assert!(weights.iter().zip(alone_weights).all(|(weight, other)| (weight - other).abs() < 1e-9));
    }
    assert!(accuracy > 0.95);
    Ok(())
}
