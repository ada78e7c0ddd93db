// SPDX-License-Identifier: Apache-2.0
//! Every function of the header is used by this crate, or there is a reason why not.

use std::fs;

use serde_json::Value;

/// Functions that safe code does without.
const LEFT_OUT: [(&str, &str); 3] = [
    ("hvd_process_set_size", "is how many ranks hvd_process_set_ranks gives, which are asked for once"),
    ("hvd_completions_fd", "a Pending is a Future, which wakes its task by hvd_handle_then; no descriptor is needed"),
    ("hvd_completions_pop", "gives out handles whose memory belongs to a Pending"),
];

#[test]
fn every_function_is_reached() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let text = fs::read_to_string(format!("{root}/capi/abi/hvd-1.api.json")).expect("the golden model");
    let model: Value = serde_json::from_str(&text).expect("the golden model is JSON");
    let mut sources = String::new();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        sources += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    for name in model["functions"].as_object().unwrap().keys() {
        // Called, or given to the library as a function.
        let used = ["(", " as _"].iter().any(|behind| sources.contains(&format!("sys::{name}{behind}")));
        let reason = LEFT_OUT.iter().find(|(left_out, _)| left_out == name).map(|(_, reason)| reason);
        assert!(used != reason.is_some(), "{name}: used: {used}, reason to leave it out: {reason:?}");
    }
}
