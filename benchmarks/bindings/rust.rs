// SPDX-License-Identifier: Apache-2.0
//! What a call costs through the crate hvd, over the C ABI: a blocking allreduce of float32 in place, on one rank.
//!
//! Prints a line of JSON for each size. Both ways take turns, and the numbers are medians over the turns.

use std::ptr::null_mut;
use std::time::Instant;

use hvd::{sys, Context, InitOptions, OpOptions};

const TURNS: usize = 61;
const CALLS: usize = 2000;

/// Nanoseconds per call of hvd.h, as a C program makes it.
fn native_turn(context: &Context, data: &mut [f32], calls: usize) -> f64 {
    let mut options = sys::hvd_op_options::init();
    options.name = c"x".as_ptr();
    let shape = [data.len() as i64];
    let tensor = sys::hvd_tensor {
        data: data.as_mut_ptr().cast(),
        shape: shape.as_ptr(),
        ndim: 1,
        dtype: sys::HVD_FLOAT32,
        device_type: sys::HVD_CPU,
        device_id: 0,
        reserved: [0; 2],
    };
    let mut error = sys::hvd_error::init();
    let began = Instant::now();
    for _ in 0..calls {
        let mut handle = null_mut();
        // SAFETY: the tensor is in use until hvd_wait returns, and the handle is freed once.
        unsafe {
            let status = sys::hvd_allreduce_async(context.as_ptr(), &tensor, &tensor, &options, &mut handle, &mut error);
            assert_eq!(status, sys::HVD_OK);
            assert_eq!(sys::hvd_wait(handle, -1, &mut error), sys::HVD_OK);
            sys::hvd_handle_free(handle);
        }
    }
    began.elapsed().as_nanos() as f64 / calls as f64
}

fn api_turn(context: &Context, data: &mut [f32], calls: usize) -> hvd::Result<f64> {
    let options = OpOptions::named("x");
    let began = Instant::now();
    for _ in 0..calls {
        context.allreduce_in_place(&mut *data, &options)?;
    }
    Ok(began.elapsed().as_nanos() as f64 / calls as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> hvd::Result<()> {
    let context = InitOptions::new().rank(0).size(1).rendezvous("mem://bench").init()?;
    for bytes in [8, 4096] {
        let mut data = vec![1.0f32; bytes / 4];
        native_turn(&context, &mut data, CALLS);
        api_turn(&context, &mut data, CALLS)?;
        let (mut native_ns, mut api_ns) = (Vec::new(), Vec::new());
        for turn in 0..2 * TURNS {
            // Who goes first changes, lest the machine's other work falls into step with one of them.
            if (turn + turn / 2) % 2 == 0 {
                native_ns.push(native_turn(&context, &mut data, CALLS));
            } else {
                api_ns.push(api_turn(&context, &mut data, CALLS)?);
            }
        }
        let (native_ns, api_ns) = (median(native_ns), median(api_ns));
        println!("{{\"language\": \"rust\", \"bytes\": {bytes}, \"native_ns\": {native_ns:.1}, \"api_ns\": {api_ns:.1}}}");
    }
    Ok(())
}
