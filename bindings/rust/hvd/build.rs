// SPDX-License-Identifier: Apache-2.0
//! Lets this crate's own tests find libhvd where its build found it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(folder) = std::env::var("DEP_HVD_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
