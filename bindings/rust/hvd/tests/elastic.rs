// SPDX-License-Identifier: Apache-2.0
//! Training that goes on after a failure, in a job of one rank, whose members are fixed. Jobs whose ranks die are run by
//! scripts/suites/elastic.py.

use std::time::Duration;

use hvd::elastic::{self, Interrupt, State};
use hvd::{Context, OpOptions, Result, Status};

#[derive(Clone, Default)]
struct Counter {
    step: [i64; 1],
}

impl State for Counter {
    fn synchronize(&mut self, job: &Context) -> Result<()> {
        job.broadcast_in_place(&mut self.step, 0, &OpOptions::named("step"))
    }
}

/// An operation that fails because the job has been left.
fn fail(job: &Context) -> Result<()> {
    job.shutdown(Duration::ZERO)?;
    job.barrier(&OpOptions::new())
}

#[test]
fn a_failure_brings_back_the_latest_commit() {
    let mut begun = Vec::new();
    let result = elastic::run(Counter::default(), |here| {
        begun.push(here.state.step[0]);
        while here.state.step[0] < 10 {
            here.state.step[0] += 1;
            if here.state.step[0] == 5 && begun.len() == 1 {
                fail(&here.job)?;
            }
            if here.state.step[0] % 2 == 0 {
                here.commit()?;
            }
        }
        Ok(here.state.step[0])
    });
    assert_eq!((result.unwrap(), begun), (10, vec![0, 4]));
}

#[test]
fn the_third_failure_without_a_commit_is_returned() {
    let mut calls = 0;
    let result = elastic::run(Counter::default(), |here| -> std::result::Result<(), Interrupt> {
        calls += 1;
        if calls == 2 {
            here.commit()?;
        }
        Ok(fail(&here.job)?)
    });
    assert_eq!((result.unwrap_err().status(), calls), (Status::ShutDown, 4));
}

#[test]
fn a_wrong_call_is_returned_at_once() {
    let mut calls = 0;
    let result = elastic::run(Counter::default(), |here| {
        calls += 1;
        Ok(here.job.option("nonsense")?)
    });
    assert_eq!((result.unwrap_err().status(), calls), (Status::NotFound, 1));
}
