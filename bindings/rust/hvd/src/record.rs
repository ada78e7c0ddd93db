// SPDX-License-Identifier: Apache-2.0
//! The flight recorder: what this rank's last operations were, and where their time went.

use std::time::Duration;

use hvd_sys as sys;

use crate::context::{sized_array, Context};
use crate::error::{static_text, Result};
use crate::process_set::ProcessSet;

/// An operation of this rank. Times are of `CLOCK_MONOTONIC`, zero where the operation has not come so far; `waited`,
/// `moved`, `reduced` and `copied` are of the whole group with which the operation ran.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// 1, 2, ... in the order in which operations ended here; `None` in flight.
    pub number: Option<u64>,
    /// The same on all members; `None` if the members have not come together.
    pub use_number: Option<u64>,
    /// `"allreduce"`, ...
    pub kind: &'static str,
    /// A name that is too long lacks its middle.
    pub name: String,
    /// The id of the process set.
    pub process_set: i32,
    /// A number of `hvd.h`: 0, 1 in flight, or that of an error.
    pub status: i32,
    /// In how many tensors.
    pub tensors: u32,
    /// The first four of the first tensor's dimensions.
    pub shape: Vec<i64>,
    /// Of this rank's inputs.
    pub bytes: u64,
    /// The same for the operations of a group; `None` if the operation ran alone with its messages.
    pub group: Option<u64>,
    /// The inputs of all operations of the group together.
    pub group_bytes: u64,
    /// In the group.
    pub group_operations: u64,
    /// The rank that announced the operation last, if it is known here.
    pub last_rank: Option<usize>,
    /// The rank for which the group waited longest, if it waited and that is known.
    pub waited_for: Option<usize>,
    /// From the first rank's announcement to the last one's.
    pub spread: Duration,
    /// When the operation was submitted.
    pub submitted: Duration,
    /// When this rank learned that all ranks are there.
    pub agreed: Duration,
    /// When the data began to move.
    pub begun: Duration,
    /// When the operation ended.
    pub ended: Duration,
    /// Nothing could be done until another rank acted.
    pub waited: Duration,
    /// All the rest, such as the network.
    pub moved: Duration,
    /// Tensors were put together.
    pub reduced: Duration,
    /// Bytes were copied within this host's memory.
    pub copied: Duration,
}

fn nanoseconds(value: i64) -> Duration {
    Duration::from_nanos(u64::try_from(value).unwrap_or(0))
}

fn known(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

impl Record {
    fn new(raw: &sys::hvd_record) -> Self {
        let name: Vec<u8> = raw.name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8).collect();
        Record {
            number: known(raw.number),
            use_number: known(raw.use_),
            // SAFETY: the text is static.
            kind: unsafe { static_text(raw.kind) },
            name: String::from_utf8_lossy(&name).into_owned(),
            process_set: raw.process_set,
            status: raw.status,
            tensors: raw.tensors,
            shape: raw.shape.iter().take(usize::try_from(raw.ndim).unwrap_or(0)).copied().collect(),
            bytes: raw.bytes,
            group: known(raw.group),
            group_bytes: raw.group_bytes,
            group_operations: raw.group_operations,
            last_rank: usize::try_from(raw.last_rank).ok(),
            waited_for: usize::try_from(raw.waited_for).ok(),
            spread: nanoseconds(raw.spread),
            submitted: nanoseconds(raw.submitted),
            agreed: nanoseconds(raw.agreed),
            begun: nanoseconds(raw.begun),
            ended: nanoseconds(raw.ended),
            waited: nanoseconds(raw.waited),
            moved: nanoseconds(raw.moved),
            reduced: nanoseconds(raw.reduced),
            copied: nanoseconds(raw.copied),
        }
    }
}

impl Context {
    /// The last operations of this rank: up to 4,096 that have ended, from the number `after` + 1 on, oldest first, then
    /// those in flight.
    pub fn records(&self, after: u64) -> Result<Vec<Record>> {
        let raw: Vec<sys::hvd_record> = sized_array(|room, count, report| {
            // SAFETY: the context is valid; room and count are as the size protocol wants them.
            unsafe { sys::hvd_records_snapshot(self.raw(), after, room, count, report) }
        })?;
        Ok(raw.iter().map(Record::new).collect())
    }
}

impl ProcessSet {
    /// When each member announced the operation with that [`Record::use_number`], zero for a member that has not. The
    /// lowest rank of the set knows.
    pub fn arrivals(&self, use_number: u64) -> Result<Vec<Duration>> {
        let raw: Vec<i64> = sized_array(|room, count, report| {
            // SAFETY: the set is valid; room and count are as the size protocol wants them.
            unsafe { sys::hvd_record_arrivals(self.raw(), use_number, room, count, report) }
        })?;
        Ok(raw.into_iter().map(nanoseconds).collect())
    }
}
