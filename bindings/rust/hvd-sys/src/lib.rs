// SPDX-License-Identifier: Apache-2.0
//! Raw declarations of `hvd.h`. The contracts of all functions stand in that header; programs want the crate `hvd`.
//!
//! `bindings.rs` is what bindgen makes of the header, checked in. The macros that initialise structs are no constants that
//! bindgen could translate; here they are functions.
#![no_std]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("libhvd supports 64-bit platforms only");

#[allow(non_camel_case_types, missing_docs)]
mod bindings;

pub use bindings::*;

use core::mem::size_of;
use core::ptr::null_mut;

impl hvd_error {
    /// `HVD_ERROR_INIT`.
    pub const fn init() -> Self {
        hvd_error { struct_size: size_of::<Self>() as u32, status: HVD_OK, rank: -1, sys_errno: 0, message: [0; 1008] }
    }
}

impl hvd_store {
    /// `HVD_STORE_INIT`.
    pub const fn init() -> Self {
        let struct_size = size_of::<Self>() as u32;
        hvd_store { struct_size, flags: 0, self_: null_mut(), set: None, get: None, add: None, remove: None }
    }
}

impl hvd_init_options {
    /// `HVD_INIT_OPTIONS_INIT`.
    pub const fn init() -> Self {
        hvd_init_options {
            struct_size: size_of::<Self>() as u32,
            rank: -1,
            size: 0,
            flags: 0,
            rendezvous: core::ptr::null(),
            store: core::ptr::null(),
            timeout_ns: 0,
            options: core::ptr::null(),
            option_count: 0,
            log_fn: None,
            log_user_data: null_mut(),
        }
    }
}

impl hvd_topology {
    /// `HVD_TOPOLOGY_INIT`.
    pub const fn init() -> Self {
        hvd_topology {
            struct_size: size_of::<Self>() as u32,
            rank: 0,
            size: 0,
            local_rank: 0,
            local_size: 0,
            cross_rank: 0,
            cross_size: 0,
            homogeneous: 0,
        }
    }
}

impl hvd_membership {
    /// `HVD_MEMBERSHIP_INIT`.
    pub const fn init() -> Self {
        hvd_membership { struct_size: size_of::<Self>() as u32, changes: 0, epoch: 0, synchronize: 0, reserved: 0 }
    }
}

impl hvd_op_options {
    /// `HVD_OP_OPTIONS_INIT`.
    pub const fn init() -> Self {
        hvd_op_options {
            struct_size: size_of::<Self>() as u32,
            priority: 0,
            name: core::ptr::null(),
            set: null_mut(),
            timeout_ns: 0,
            reduce_op: HVD_SUM,
            root: 0,
            prescale: 1.0,
            postscale: 1.0,
            stream: null_mut(),
        }
    }
}
