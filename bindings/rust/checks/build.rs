// SPDX-License-Identifier: Apache-2.0
//! Lets the programs find libhvd where the build of hvd-sys found it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(folder) = std::env::var("DEP_HVD_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
