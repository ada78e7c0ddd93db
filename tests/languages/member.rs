// SPDX-License-Identifier: Apache-2.0
//! The Rust rank of a job whose ranks are of several languages; `member.py` beside it says what every one of them does.

use std::env;
use std::process::Command;

use hvd::{AnyRef, AnyTensor, Context, Element, OpOptions, ReduceOp, Result, Tensor, TensorRef};

struct Member {
    context: Context,
    rank: usize,
    size: usize,
}

/// The bytes of results, one after another.
#[derive(Default)]
struct Checksum(crc32fast::Hasher);

impl Checksum {
    fn of<T: Element>(data: &[T]) -> Self {
        let mut checksum = Checksum::default();
        checksum.add(data);
        checksum
    }

    fn add<T: Element>(&mut self, data: &[T]) {
        // SAFETY: elements are plain numbers without padding.
        let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data)) };
        self.0.update(bytes);
    }
}

impl Member {
    /// Element i of this rank's input.
    fn value(&self, i: usize) -> i32 {
        (((self.rank + 1) * 7 + i * 3) % 251) as i32
    }

    fn values<T>(&self, count: usize, convert: impl Fn(i32) -> T) -> Vec<T> {
        (0..count).map(|i| convert(self.value(i))).collect()
    }

    fn floats(&self, count: usize) -> Vec<f32> {
        self.values(count, |value| value as f32)
    }

    fn show(&self, label: &str, checksum: Checksum) {
        println!("rank={} {label} {:08x}", self.rank, checksum.0.finalize());
    }

    fn reduced<T: Element>(&self, input: Vec<T>, options: &OpOptions) -> Result<Checksum> {
        self.context.allreduce(&input, options).map(|result| Checksum::of(&result))
    }

    /// The operation of this name.
    fn operation(&self, name: &str) -> Result<Checksum> {
        let (context, size, options) = (&self.context, self.size, OpOptions::named(name));
        match name {
            "allreduce-f32-sum" => self.reduced(self.values(1000, |value| value as f32 / 8.0), &options),
            "allreduce-f64-avg" => {
                self.reduced(self.values(257, |value| f64::from(value) / 3.0), &options.reduce(ReduceOp::Average))
            }
            "allreduce-i64-max" => self.reduced(self.values(33, i64::from), &options.reduce(ReduceOp::Max)),
            "allreduce-i32-min" => self.reduced(self.values(33, |value| value), &options.reduce(ReduceOp::Min)),
            "allreduce-f32-product" => {
                let input = (0..5).map(|i| (1 + (self.rank + i) % 3) as f32).collect();
                self.reduced(input, &options.reduce(ReduceOp::Product))
            }
            "allreduce-f32-scaled" => self.reduced(self.floats(64), &options.prescale(0.5).postscale(3.0)),
            "grouped" => {
                let inputs = [1, 10, 100].map(|count| self.floats(count));
                let borrowed: Vec<AnyRef<'_>> = inputs.iter().map(AnyRef::from).collect();
                let mut checksum = Checksum::default();
                for sum in &context.grouped_allreduce(&borrowed, &options)? {
                    checksum.add(AnyTensor::as_slice::<f32>(sum).unwrap_or_default());
                }
                Ok(checksum)
            }
            "allgather-f32" => {
                let input = Tensor::new(self.floats(3 * (self.rank + 1)), &[self.rank + 1, 3])?;
                context.allgather(&input, &options).map(|result| Checksum::of(&result))
            }
            "broadcast-u8" => {
                let mut data = self.values(4096, |value| value as u8);
                context.broadcast_in_place(&mut data, 1, &options).map(|()| Checksum::of(&data))
            }
            "alltoall-i32" => {
                let splits: Vec<_> = (0..size).map(|j| (self.rank + j) % 3).collect();
                let rows = splits.iter().sum();
                let input = Tensor::new(self.values(rows, |value| value), &[rows, 1])?;
                context.alltoallv(&input, &splits, &options).map(|received| Checksum::of(&received.tensor))
            }
            "reducescatter-f32" => {
                let (rows, input) = (2 * size + 1, self.floats(2 * (2 * size + 1)));
                let shape = [rows, 2];
                let input = TensorRef::shaped(&input, &shape)?;
                context.reducescatter(input, &options).map(|result| Checksum::of(&result))
            }
            "barrier" => context.barrier(&options).map(|()| Checksum::default()),
            unknown => unreachable!("no operation {unknown}"),
        }
    }

    fn set_of_even_ranks(&self) -> Result<()> {
        let even = self.context.create_process_set(&(0..self.size).step_by(2).collect::<Vec<_>>())?;
        if even.is_member() {
            let label = "set-allreduce-f64";
            let options = OpOptions::named(label).on(&even);
            self.show(label, self.reduced(self.values(100, f64::from), &options)?);
        }
        even.destroy()
    }

    fn out_of_order(&self) -> Result<()> {
        let start = |label| self.context.allreduce_async(self.floats(10), &OpOptions::named(label));
        let (a, b) = if self.rank % 2 == 1 {
            let b = start("async-b")?;
            (start("async-a")?, b)
        } else {
            (start("async-a")?, start("async-b")?)
        };
        self.show("async-a", Checksum::of(&a.wait()?));
        self.show("async-b", Checksum::of(&b.wait()?));
        Ok(())
    }

    fn die(&self, victim: &str) {
        let told = self.context.barrier(&OpOptions::named("before-death")).and_then(|()| {
            if victim == self.rank.to_string() {
                let _ = Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
            }
            self.context.allreduce(&self.floats(10), &OpOptions::named("after-death"))
        });
        if let Err(error) = told {
            println!("rank={} error {error}", self.rank);
        }
    }

    fn run(&self) -> Result<()> {
        let labels = [
            "allreduce-f32-sum",
            "allreduce-f64-avg",
            "allreduce-i64-max",
            "allreduce-i32-min",
            "allreduce-f32-product",
            "allreduce-f32-scaled",
            "grouped",
            "allgather-f32",
            "broadcast-u8",
            "alltoall-i32",
            "reducescatter-f32",
            "barrier",
        ];
        for label in labels {
            self.show(label, self.operation(label)?);
        }
        self.set_of_even_ranks()?;
        self.out_of_order()?;
        for label in [labels[0], labels[1], labels[2], labels[7], labels[10]] {
            self.show(&format!("again-{label}"), self.operation(label)?);
        }
        if let Ok(victim) = env::var("HVD_TEST_DIE") {
            self.die(&victim);
        }
        println!("rank={} done", self.rank);
        Ok(())
    }
}

fn main() -> Result<()> {
    let context = Context::init()?;
    Member { rank: context.rank(), size: context.size(), context }.run()
}
