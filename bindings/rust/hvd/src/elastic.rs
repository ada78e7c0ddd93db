// SPDX-License-Identifier: Apache-2.0
//! Training that goes on after a failure: `docs/elastic.md` says what a job can go on after.
//!
//! ```
//! use hvd::elastic::{self, State};
//! use hvd::{Context, OpOptions, ReduceOp, Result};
//!
//! #[derive(Clone, Default)]
//! struct Model {
//!     weights: [f64; 3],
//!     step: [i64; 1],
//! }
//!
//! impl State for Model {
//!     fn synchronize(&mut self, job: &Context) -> Result<()> {
//!         job.broadcast_in_place(&mut self.weights, 0, &OpOptions::named("weights"))?;
//!         job.broadcast_in_place(&mut self.step, 0, &OpOptions::named("step"))
//!     }
//! }
//!
//! let weights = elastic::run(Model::default(), |here| {
//!     while here.state.step[0] < 100 {
//!         let mut gradient = here.state.weights.map(|weight| weight - 1.0);
//!         here.job.allreduce_in_place(&mut gradient, &OpOptions::named("gradient").reduce(ReduceOp::Average))?;
//!         here.state.weights.iter_mut().zip(gradient).for_each(|(weight, slope)| *weight -= 0.1 * slope);
//!         here.state.step[0] += 1;
//!         here.commit()?;
//!     }
//!     Ok(here.state.weights)
//! })?;
//! assert!(weights.iter().all(|weight| (weight - 1.0).abs() < 1e-3));
//! # Ok::<(), hvd::Error>(())
//! ```

use std::time::Duration;

use hvd_sys as sys;

use crate::context::{Context, InitOptions};
use crate::error::{Class, Error, Result, Status};
use crate::op_options::{OpOptions, ReduceOp};

const MOST_FAILURES: u32 = 3;
const GRACE: Duration = Duration::from_secs(5);

/// A state that training goes on from. A commit keeps a clone.
pub trait State: Clone {
    /// Gives every rank the state of rank 0.
    fn synchronize(&mut self, job: &Context) -> Result<()>;
}

/// Why a training function is left before its end; `?` makes one of an [`Error`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Interrupt {
    /// Members are about to come or go. [`Run::commit`] gives this.
    Changed,
    /// An operation failed.
    Failed(Error),
}

impl From<Error> for Interrupt {
    fn from(error: Error) -> Self {
        Interrupt::Failed(error)
    }
}

/// A call of the training function, which is a member of one epoch of the job.
#[derive(Debug)]
pub struct Run<S> {
    /// The state, which the training changes.
    pub state: S,
    /// The job of the present epoch. Process sets end with the epoch.
    pub job: Context,
    committed: S,
    commits: i64, // of the whole job; -1 until this process has a state of it
}

/// Joins the job and calls `train`, again and again, each time as a member of the job's next epoch, until `train` returns.
///
/// Under `horovodrun --min-np` other ranks may die, leave and come meanwhile; in a job of fixed members `train` begins again after
/// an operation that failed. A failed operation brings back the latest commit. The third failure in a row without a commit in
/// between is returned, except for ranks that died, which the launcher counts. A process that has no place in the job any more
/// ends here, with exit code 0.
pub fn run<S: State, R>(state: S, mut train: impl FnMut(&mut Run<S>) -> std::result::Result<R, Interrupt>) -> Result<R> {
    let mut run = Run { committed: state.clone(), state, job: join(-1)?, commits: -1 };
    let (mut failures, mut commits_at_failure) = (0, run.commits);
    loop {
        match run.take_over().map_err(Interrupt::from).and_then(|()| train(&mut run)) {
            Ok(result) => return Ok(result),
            Err(Interrupt::Changed) => {}
            Err(Interrupt::Failed(error)) => {
                if run.commits != commits_at_failure {
                    (failures, commits_at_failure) = (0, run.commits);
                }
                let lost = error.status() == Status::PeerLost;
                failures += u32::from(!(lost && is_elastic()));
                let is_failure = matches!(error.class(), Class::Operation | Class::ProcessSet | Class::Context);
                if !is_failure || failures >= MOST_FAILURES || (lost && !is_elastic()) {
                    return Err(error);
                }
                run.state.clone_from(&run.committed);
            }
        }
        let _ = run.job.shutdown(GRACE); // of a job that is over, whatever became of it
        run.job = join(run.commits)?;
    }
}

impl<S: State> Run<S> {
    /// Keeps a clone of the state, to which a failure from now on goes back. All ranks commit after the same steps. If members are
    /// about to come or go, this is an error, and the training function is called again.
    pub fn commit(&mut self) -> std::result::Result<(), Interrupt> {
        self.committed.clone_from(&self.state);
        self.commits += 1;
        let members = self.job.membership()?;
        if members.epoch == 0 {
            return Ok(());
        }
        let flag = |told: bool, number: i32| if told { number } else { 0 };
        let mut changes = [flag(members.removed, sys::HVD_MEMBERS_REMOVED) | flag(members.added, sys::HVD_MEMBERS_ADDED)];
        // Every language does the same, so that ranks of several languages can be one job.
        self.job.allreduce_in_place(&mut changes, &OpOptions::named("hvd.elastic.commit").reduce(ReduceOp::Max))?;
        if changes == [0] {
            Ok(())
        } else {
            Err(Interrupt::Changed)
        }
    }

    fn take_over(&mut self) -> Result<()> {
        let members = self.job.membership()?;
        if members.synchronize || members.epoch == 0 {
            self.state.synchronize(&self.job)?;
            let mut commits = [self.commits.max(0)];
            self.job.broadcast_in_place(&mut commits, 0, &OpOptions::named("hvd.elastic.commits"))?;
            self.commits = commits[0];
            self.committed.clone_from(&self.state);
        }
        Ok(())
    }
}

/// Whether the launcher of this process lets ranks come and go.
fn is_elastic() -> bool {
    std::env::var_os("HOROVOD_MEMBERSHIP").is_some_and(|path| !path.is_empty())
}

fn join(commits: i64) -> Result<Context> {
    loop {
        match InitOptions::new().option("membership_position", commits.to_string()).init() {
            // In order, and not expelled.
            Err(error) if error.status() == Status::Dismissed && error.raw_os_error().is_none() => std::process::exit(0),
            // Another member has ended on its way: the launcher knows, and decides anew.
            Err(error) if is_elastic() && matches!(error.status(), Status::PeerLost | Status::ShutDown | Status::Timeout) => {}
            opened => return opened,
        }
    }
}
