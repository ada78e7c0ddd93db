// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings), allow(dead_code))))]

mod blocking;
mod callback;
mod context;
pub mod elastic;
mod element;
mod error;
mod in_flight_op;
mod op_options;
mod pending;
mod process_set;
mod record;
mod request;
mod scope;
mod settings;
mod store;
mod tensor;
mod view;

pub use half::{bf16, f16};
pub use hvd_sys as sys;

pub use blocking::Received;
pub use callback::{LogLevel, LogLine};
pub use context::{Burst, Context, InitOptions, Membership, Topology};
pub use element::{Bool, DType, Element};
pub use error::{Class, Error, Result, Status};
pub use op_options::{OpOptions, ReduceOp};
pub use pending::Pending;
pub use process_set::ProcessSet;
pub use record::Record;
pub use scope::{Scope, ScopedPending};
pub use settings::{has_feature, metric_help, options, version, version_number, Histogram, Metric, OptionInfo};
pub use store::{Store, StoreError};
pub use tensor::{AnyTensor, Tensor};
pub use view::{AnyMut, AnyRef, TensorMut, TensorRef};

/// The programs of the manual compile without a warning and run.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/rust.md")]
mod manual {}
