// SPDX-License-Identifier: Apache-2.0
//! Finds libhvd: by variable, built from source (feature `vendored`), or by pkg-config.

use std::env;
use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The loader's name of the library's first ABI.
const SONAME: &str = "libhvd.so.1";

fn main() -> Result<()> {
    for variable in ["HVD_LIB_DIR", "HVD_INCLUDE_DIR", "HVD_SOURCE_DIR"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(folder) = env::var_os("HVD_LIB_DIR") {
        let include = env::var_os("HVD_INCLUDE_DIR").map(PathBuf::from);
        return link(Path::new(&folder), include.as_deref());
    }
    if env::var_os("CARGO_FEATURE_VENDORED").is_some() {
        let sources = sources()?;
        let folder = build(&sources)?;
        return link(&folder, Some(&sources.join("capi/include")));
    }
    by_pkg_config()
}

/// Tells cargo to link with the library in `folder`.
fn link(folder: &Path, include: Option<&Path>) -> Result<()> {
    let folder = folder.canonicalize().map_err(|error| format!("HVD_LIB_DIR: {}: {error}", folder.display()))?;
    let library = folder.join(SONAME);
    if !library.exists() {
        return Err(format!("HVD_LIB_DIR: {} has no {SONAME}", folder.display()).into());
    }
    println!("cargo:rerun-if-changed={}", library.display());
    // A folder inside cargo's own has both names of the library, that for the linker and that for the loader. Cargo tells the
    // loader of it when it runs programs and tests.
    let links = PathBuf::from(env::var("OUT_DIR")?).join("link");
    if links.exists() {
        fs::remove_dir_all(&links)?;
    }
    fs::create_dir_all(&links)?;
    symlink(&library, links.join("libhvd.so"))?;
    symlink(&library, links.join(SONAME))?;
    for entry in fs::read_dir(&folder)? {
        // Plug-ins are looked for beside the library.
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("hvd-backend-") {
            symlink(entry.path(), links.join(entry.file_name()))?;
        }
    }
    println!("cargo:rustc-link-search=native={}", links.display());
    println!("cargo:rustc-link-lib=dylib=hvd");
    // This crate's own tests; dependents say it for theirs with DEP_HVD_LIB_DIR.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    println!("cargo:lib_dir={}", folder.display());
    if let Some(include) = include {
        println!("cargo:include_dir={}", include.display());
    }
    Ok(())
}

fn by_pkg_config() -> Result<()> {
    let found = pkg_config::Config::new().atleast_version("1.0.0").probe("hvd").map_err(|error| {
        format!("libhvd was not found; HVD_LIB_DIR names its folder, the feature vendored builds it: {error}")
    })?;
    if let Some(folder) = found.link_paths.first() {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
        println!("cargo:lib_dir={}", folder.display());
    }
    if let Some(folder) = found.include_paths.first() {
        println!("cargo:include_dir={}", folder.display());
    }
    Ok(())
}

/// The root of the library's sources.
fn sources() -> Result<PathBuf> {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let folder = env::var_os("HVD_SOURCE_DIR").map_or_else(|| manifest.join("../../.."), PathBuf::from);
    if !folder.join("capi/include/hvd/hvd.h").exists() {
        return Err(format!(
            "feature vendored: {} has no sources of libhvd; HVD_SOURCE_DIR names the repository",
            folder.display()
        )
        .into());
    }
    Ok(folder.canonicalize()?)
}

/// Builds the shared library and returns its folder.
fn build(sources: &Path) -> Result<PathBuf> {
    let folder = PathBuf::from(env::var("OUT_DIR")?).join("libhvd");
    let mut setup = Command::new("meson");
    setup.arg("setup");
    if folder.join("meson-info").exists() {
        setup.arg("--reconfigure");
    }
    setup.args(["--buildtype=release", "-Dtests=false", "-Dgloo=disabled", "--unity=on", "-Dunity_size=6"]);
    run(setup.arg(&folder).arg(sources))?;
    run(Command::new("ninja").arg("-C").arg(&folder).args(["-j", &env::var("NUM_JOBS")?]).arg(format!("capi/{SONAME}")))?;
    for part in ["core", "capi", "meson.build", "meson.options"] {
        println!("cargo:rerun-if-changed={}", sources.join(part).display());
    }
    Ok(folder.join("capi"))
}

fn run(command: &mut Command) -> Result<()> {
    let words = format!("{command:?}");
    let done = command.output().map_err(|error| format!("feature vendored: {words}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let output = [done.stdout, done.stderr].concat();
    Err(format!("feature vendored: {words}: {}\n{}", done.status, String::from_utf8_lossy(&output)).into())
}
