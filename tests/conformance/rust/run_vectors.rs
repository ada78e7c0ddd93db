// SPDX-License-Identifier: Apache-2.0
//! Runs conformance vectors through the Rust API, ranks as threads. Each vector runs with an output of the caller's, with one
//! that the library allocates, in place, and with memory given away; an error vector is followed by an operation that must
//! succeed.
//!
//!   run_vectors QUIRKS.json FILE.json...        prints a line per file, and one per failure or vector that is not run

mod rank;
mod vectors;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hvd::InitOptions;
use serde_json::Value;

use rank::{possible, Place, Rank};
use vectors::{read_vectors, Vector};

const PLACES: [Place; 4] = [Place::Given, Place::Library, Place::Input, Place::Owned];

/// All vectors of one size on one world: what one vector leaves behind would disturb the next. Returns runs and failures.
fn run_world(job: &str, size: usize, vectors: &[&Vector]) -> (usize, Vec<String>) {
    let runs = AtomicUsize::new(0);
    let one = |rank: usize| -> Vec<String> {
        let limit = Duration::from_secs(30);
        let context = match InitOptions::new().rank(rank).size(size).rendezvous(job).timeout(limit).init() {
            Ok(context) => context,
            Err(error) => return vec![format!("{job}: init: {error}")],
        };
        let mut own = Rank::new(context);
        for vector in vectors {
            // One answer for all ranks, so that they run the same sequence.
            for place in PLACES.into_iter().filter(|&place| possible(vector, place)) {
                own.run(vector, place);
                runs.fetch_add(1, Ordering::Relaxed);
            }
        }
        own.leave()
    };
    let failures = thread::scope(|scope| {
        let threads: Vec<_> = (0..size).map(|rank| scope.spawn(move || one(rank))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| vec![format!("{job}: a rank panicked")]));
        ended.flatten().collect()
    });
    (runs.into_inner(), failures)
}

/// A vector that this runner is excused from.
struct Quirk {
    name: String,
    reason: String,
    used: Cell<bool>,
}

fn read_quirks(path: &Path) -> Result<Vec<Quirk>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let whole: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let own = whole.as_array().ok_or("no list")?.iter().filter(|quirk| quirk["runner"] == "rust");
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("no text");
    let read = |quirk: &Value| {
        let (name, reason) = (text(&quirk["value"])?, text(&quirk["reason"])?);
        Ok(Quirk { name, reason, used: Cell::new(false) })
    };
    own.map(read).collect()
}

fn excused(vector: &Vector, quirks: &[Quirk]) -> bool {
    let Some(quirk) = quirks.iter().find(|quirk| quirk.name == vector.name) else { return false };
    println!("\"{}\" is not run: {}", quirk.name, quirk.reason);
    quirk.used.set(true);
    true
}

/// Returns the number of failures.
fn run_file(path: &Path, quirks: &[Quirk]) -> usize {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let vectors = match read_vectors(path) {
        Ok(vectors) => vectors,
        Err(error) => {
            println!("{}: {error}", path.display());
            return 1;
        }
    };
    let mut by_size = BTreeMap::<usize, Vec<&Vector>>::new();
    for vector in vectors.iter().filter(|vector| !excused(vector, quirks)) {
        by_size.entry(vector.size).or_default().push(vector);
    }
    let (mut runs, mut expected, mut failures) = (0, 0, Vec::new());
    for (size, selected) in by_size {
        for vector in &selected {
            expected += size * PLACES.into_iter().filter(|&place| possible(vector, place)).count();
        }
        let (ran, failed) = run_world(&format!("mem://vectors-{stem}-{size}"), size, &selected);
        runs += ran;
        failures.extend(failed);
    }
    if runs != expected {
        failures.push(format!("{stem}: {runs} runs of {expected}"));
    }
    for failure in failures.iter().take(60) {
        println!("{failure}");
    }
    println!("{stem}: {} vectors, {runs} runs, {} failures", vectors.len(), failures.len());
    failures.len()
}

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    let [quirks, files @ ..] = &files[..] else {
        eprintln!("usage: run_vectors QUIRKS.json FILE.json...");
        return ExitCode::from(2);
    };
    let quirks = match read_quirks(Path::new(quirks)) {
        Ok(quirks) => quirks,
        Err(error) => {
            eprintln!("run_vectors: {}: {error}", quirks.to_string_lossy());
            return ExitCode::from(2);
        }
    };
    let mut failures: usize = files.iter().map(|file| run_file(Path::new(file), &quirks)).sum();
    for quirk in quirks.iter().filter(|quirk| !quirk.used.get()) {
        println!("quirks: \"{}\" excuses nothing: {}", quirk.name, quirk.reason);
        failures += 1;
    }
    ExitCode::from(u8::from(failures > 0 || files.is_empty()))
}
