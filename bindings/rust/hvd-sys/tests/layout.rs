// SPDX-License-Identifier: Apache-2.0
//! The declarations against the golden model of the header: sizes, offsets, constants, initial values, and that the library
//! has every function.

use std::mem::{offset_of, size_of};

use hvd_sys::*;
use serde_json::Value;

fn model() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../capi/abi/hvd-1.api.json");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).expect("the golden model is JSON")
}

/// (name, size, fields with offset and size) as Rust lays it out.
type Layout = (&'static str, usize, Vec<(&'static str, usize, usize)>);

macro_rules! layout {
    ($name:ident { $($field:ident),* }) => {{
        fn size_behind<S, F>(_: fn(&S) -> &F) -> usize {
            size_of::<F>()
        }
        let fields = vec![$((
            stringify!($field),
            offset_of!($name, $field),
            size_behind(|whole: &$name| &whole.$field),
        )),*];
        (stringify!($name), size_of::<$name>(), fields)
    }};
}

fn layouts() -> Vec<Layout> {
    vec![
        layout!(hvd_error { struct_size, status, rank, sys_errno, message }),
        layout!(hvd_tensor { data, shape, ndim, dtype, device_type, device_id, reserved }),
        layout!(hvd_store { struct_size, flags, self_, set, get, add, remove }),
        layout!(hvd_option { name, value }),
        layout!(hvd_init_options {
            struct_size,
            rank,
            size,
            flags,
            rendezvous,
            store,
            timeout_ns,
            options,
            option_count,
            log_fn,
            log_user_data
        }),
        layout!(hvd_topology { struct_size, rank, size, local_rank, local_size, cross_rank, cross_size, homogeneous }),
        layout!(hvd_membership { struct_size, changes, epoch, synchronize, reserved }),
        layout!(hvd_op_options { struct_size, priority, name, set, timeout_ns, reduce_op, root, prescale, postscale, stream }),
        layout!(hvd_metric { name, unit, value, reserved }),
        layout!(hvd_histogram { name, unit, value_count, sum, buckets }),
        layout!(hvd_record {
            number,
            use_,
            kind,
            name,
            process_set,
            status,
            dtype,
            reduce_op,
            tensors,
            ndim,
            last_rank,
            waited_for,
            shape,
            bytes,
            group,
            group_bytes,
            group_operations,
            spread,
            submitted,
            agreed,
            begun,
            ended,
            waited,
            moved,
            reduced,
            copied
        }),
    ]
}

#[test]
fn structs_lie_in_memory_as_in_c() {
    let model = model();
    let structs = model["structs"].as_object().unwrap();
    let layouts = layouts();
    assert_eq!(layouts.len(), structs.len(), "structs of the header: {:?}", structs.keys().collect::<Vec<_>>());
    for (name, size, fields) in layouts {
        let expected = &structs[name];
        assert_eq!(expected["size"], size, "{name}");
        let listed: Vec<_> = expected["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| {
                let number = |key: &str| field[key].as_u64().unwrap() as usize;
                (field["name"].as_str().unwrap(), number("offset"), number("size"))
            })
            .collect();
        // `self` is a keyword of Rust.
        let fields: Vec<_> =
            fields.into_iter().map(|(field, offset, size)| (field.trim_end_matches('_'), offset, size)).collect();
        assert_eq!(fields, listed, "{name}");
    }
}

/// The text of the declarations, for what the language cannot list.
const DECLARATIONS: &str = include_str!("../src/bindings.rs");

#[test]
fn constants_have_the_numbers_of_c() {
    for (name, value) in model()["constants"].as_object().unwrap() {
        let line = format!("pub const {name}: i32 = {value};");
        assert!(DECLARATIONS.lines().any(|found| found == line), "no line {line}");
    }
}

#[test]
fn every_function_is_declared() {
    let model = model();
    let functions = model["functions"].as_object().unwrap();
    for name in functions.keys() {
        assert!(DECLARATIONS.contains(&format!("pub fn {name}(")), "{name}");
    }
    assert_eq!(DECLARATIONS.matches("pub fn ").count(), functions.len());
}

#[test]
fn initial_values_are_those_of_the_macros() {
    let error = hvd_error::init();
    assert_eq!((error.struct_size, error.status, error.rank, error.sys_errno, error.message[0]), (1024, 0, -1, 0, 0));
    let options = hvd_init_options::init();
    assert_eq!((options.struct_size, options.rank, options.size, options.flags), (72, -1, 0, 0));
    assert!(options.rendezvous.is_null() && options.store.is_null() && options.options.is_null());
    assert!(options.log_fn.is_none() && options.log_user_data.is_null());
    assert_eq!((options.timeout_ns, options.option_count), (0, 0));
    let operation = hvd_op_options::init();
    assert_eq!((operation.struct_size as usize, operation.priority), (size_of::<hvd_op_options>(), 0));
    assert!(operation.name.is_null() && operation.set.is_null());
    assert_eq!((operation.timeout_ns, operation.reduce_op, operation.root), (0, HVD_SUM, 0));
    assert_eq!((operation.prescale, operation.postscale), (1.0, 1.0));
    assert!(operation.stream.is_null());
    let (store, topology, membership) = (hvd_store::init(), hvd_topology::init(), hvd_membership::init());
    assert_eq!(
        (store.struct_size as usize, topology.struct_size as usize, membership.struct_size as usize),
        (size_of::<hvd_store>(), size_of::<hvd_topology>(), size_of::<hvd_membership>())
    );
    // What the macros say, so that a change of theirs is seen here.
    let model = model();
    let macros = model["initializers"].as_object().unwrap();
    let listed = |name: &str| {
        let values = macros[name].as_array().unwrap();
        values.iter().skip(1).map(|value| value.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(listed("HVD_ERROR_INIT"), "0 -1 0 {0}");
    assert_eq!(listed("HVD_INIT_OPTIONS_INIT"), "-1 0 0 NULL NULL 0 NULL 0 NULL NULL");
    assert_eq!(listed("HVD_OP_OPTIONS_INIT"), "0 NULL NULL 0 HVD_SUM 0 1.0 1.0 NULL");
    assert_eq!(listed("HVD_STORE_INIT"), "0 NULL NULL NULL NULL NULL");
    assert_eq!(listed("HVD_TOPOLOGY_INIT"), "0 0 0 0 0 0 0");
    assert_eq!(listed("HVD_MEMBERSHIP_INIT"), "0 0 0 0");
    assert_eq!(macros.len(), 6);
}

#[test]
fn the_library_is_of_this_header() {
    // SAFETY: takes nothing.
    assert_eq!(unsafe { hvd_version() }, HVD_VERSION as u32);
}
