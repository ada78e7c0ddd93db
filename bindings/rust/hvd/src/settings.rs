// SPDX-License-Identifier: Apache-2.0
//! What the library can say of itself: version, settings, metrics.

use hvd_sys as sys;

use crate::context::{sized_array, text, Context};
use crate::error::{static_text, Report, Result};

/// The version of the library that was loaded, `"1.0.0"`.
pub fn version() -> &'static str {
    // SAFETY: the text is static.
    unsafe { static_text(sys::hvd_version_string()) }
}

/// The same as one number, 10000 for 1.0.0.
pub fn version_number() -> u32 {
    // SAFETY: takes nothing.
    unsafe { sys::hvd_version() }
}

/// Whether this installation has a feature: `"shm"`, `"tcp"`, `"gloo"`, `"mpi"` and others that `hvd.h` names.
pub fn has_feature(name: &str) -> bool {
    // SAFETY: the text is NUL-terminated.
    text("feature", name).is_ok_and(|name| unsafe { sys::hvd_has_feature(name.as_ptr()) } != 0)
}

/// What the counter or histogram of that name tells, in a line.
pub fn metric_help(name: &str) -> Option<&'static str> {
    let name = text("metric", name).ok()?;
    // SAFETY: the name is NUL-terminated, and the text is static.
    unsafe {
        let help = sys::hvd_metric_help(name.as_ptr());
        (!help.is_null()).then(|| static_text(help))
    }
}

/// A setting that the library knows. Each can be given to [`InitOptions::option`](crate::InitOptions::option) and as an
/// environment variable: `HOROVOD_` and the name in upper case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub struct OptionInfo {
    pub name: &'static str,
    pub default: &'static str,
    pub help: &'static str,
}

/// The table of settings.
pub fn options() -> impl Iterator<Item = OptionInfo> {
    (0..).map_while(|index| {
        // SAFETY: takes any index; without a setting there it is NULL, otherwise all three texts are static.
        unsafe {
            let name = sys::hvd_option_name(index);
            (!name.is_null()).then(|| OptionInfo {
                name: static_text(name),
                default: static_text(sys::hvd_option_default(index)),
                help: static_text(sys::hvd_option_help(index)),
            })
        }
    })
}

/// A counter of this rank.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// What is counted.
    pub name: &'static str,
    /// `"1"`, `"bytes"` or `"ns"`.
    pub unit: &'static str,
    /// Since the context was opened.
    pub value: f64,
}

/// How often which values were seen: `buckets[i]` counts the values of at most 2^i in the unit that no bucket before counts,
/// and the last one all the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Histogram {
    /// As in `hvd.h`, `"operation_duration"` for one.
    pub name: &'static str,
    /// `"1"`, `"bytes"` or `"ns"`.
    pub unit: &'static str,
    /// How many values there were.
    pub count: u64,
    /// Of all values, in the unit.
    pub sum: u64,
    /// See above.
    pub buckets: [u64; 64],
}

impl Context {
    /// The value in force of a setting.
    pub fn option(&self, name: &str) -> Result<String> {
        let name = text("option", name)?;
        let bytes: Vec<u8> = sized_array(|room: *mut u8, size, report| {
            // SAFETY: the context is valid; room and size are as the size protocol wants them.
            unsafe { sys::hvd_option_get(self.raw(), name.as_ptr(), room.cast(), size, report) }
        })?;
        let value = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        Ok(String::from_utf8_lossy(value).into_owned())
    }

    /// Changes a setting that may change while running, on this rank only.
    pub fn set_option(&self, name: &str, value: &str) -> Result<()> {
        let (name, value) = (text("option", name)?, text("option", value)?);
        let mut report = Report::new();
        // SAFETY: the context is valid and both are texts.
        let status = unsafe { sys::hvd_option_set(self.raw(), name.as_ptr(), value.as_ptr(), report.raw()) };
        report.check(status)
    }

    /// Writes the operations that this rank submits from now on to a file in Chrome's trace format: rank 0 to `path`, rank 1
    /// of `name.json` to `name.rank1.json`. `mark_cycles` adds an event for each group of operations that run together.
    pub fn start_timeline(&self, path: &str, mark_cycles: bool) -> Result<()> {
        let path = text("path", path)?;
        let mut report = Report::new();
        // SAFETY: the context is valid and the path is a text.
        let status = unsafe { sys::hvd_timeline_start(self.raw(), path.as_ptr(), mark_cycles.into(), report.raw()) };
        report.check(status)
    }

    /// Ends the file of the timeline; nothing if there is none.
    pub fn stop_timeline(&self) -> Result<()> {
        let mut report = Report::new();
        // SAFETY: the context is valid.
        let status = unsafe { sys::hvd_timeline_stop(self.raw(), report.raw()) };
        report.check(status)
    }

    /// All counters of this rank.
    pub fn metrics(&self) -> Result<Vec<Metric>> {
        let raw = sized_array(|room, count, report| {
            // SAFETY: the context is valid; room and count are as the size protocol wants them.
            unsafe { sys::hvd_metrics_snapshot(self.raw(), room, count, report) }
        })?;
        let known = |metric: sys::hvd_metric| {
            // SAFETY: both texts are static.
            let (name, unit) = unsafe { (static_text(metric.name), static_text(metric.unit)) };
            Metric { name, unit, value: metric.value }
        };
        Ok(raw.into_iter().map(known).collect())
    }

    /// How often this rank has seen which sizes and times.
    pub fn histograms(&self) -> Result<Vec<Histogram>> {
        let raw: Vec<sys::hvd_histogram> = sized_array(|room, count, report| {
            // SAFETY: the context is valid; room and count are as the size protocol wants them.
            unsafe { sys::hvd_histograms_snapshot(self.raw(), room, count, report) }
        })?;
        let known = |histogram: &sys::hvd_histogram| {
            // SAFETY: both texts are static.
            let (name, unit) = unsafe { (static_text(histogram.name), static_text(histogram.unit)) };
            Histogram { name, unit, count: histogram.value_count, sum: histogram.sum, buckets: histogram.buckets }
        };
        Ok(raw.iter().map(known).collect())
    }
}
