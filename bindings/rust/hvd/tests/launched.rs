// SPDX-License-Identifier: Apache-2.0
//! Ranks as processes: this program starts itself under horovodrun. HVD_HOROVODRUN names that command, words apart by
//! spaces; without it, horovodrun on PATH. Without either the test says so and does nothing.

mod common;

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use common::named;
use hvd::{Class, Context, Status};

/// Set in the processes that are ranks; says which part they play.
const PART: &str = "HVD_RUST_TEST_PART";

/// Runs a rank that is to die. horovodrun hears of it 5 s later, because it stops the others 1 s after that, whether they have
/// said what they were told or not.
const HEARD_OF_LATE: [&str; 4] = ["sh", "-c", r#""$@"; code=$?; [ $code = 0 ] || sleep 5; exit $code"#, "sh"];

fn launch(ranks: &str, part: &str) -> Option<Output> {
    let command = env::var("HVD_HOROVODRUN").unwrap_or_else(|_| "horovodrun".into());
    let mut words = command.split(' ');
    let program = env::current_exe().expect("the path of this program");
    let done = Command::new(words.next().unwrap_or_default())
        .args(words)
        .args(["-np", ranks])
        .args(if part == "die" { &HEARD_OF_LATE[..] } else { &[] })
        .arg(program)
        .args(["--exact", "--nocapture", "rank_of_a_launched_job"])
        .env(PART, part)
        .output();
    match done {
        Ok(output) => Some(output),
        Err(error) if env::var_os("HVD_HOROVODRUN").is_none() => {
            println!("skipped: horovodrun: {error}; HVD_HOROVODRUN names it");
            None
        }
        Err(error) => panic!("{command}: {error}"),
    }
}

#[test]
fn processes_reduce() {
    let Some(output) = launch("3", "reduce") else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for rank in 0..3 {
        assert!(text.contains(&format!("rank {rank} of 3: sum 3")), "{text}");
    }
}

#[test]
fn the_death_of_a_process_is_an_error_of_the_others() {
    let Some(output) = launch("2", "die") else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("rank 0: HVD_ERR_PEER_LOST: allreduce \"after\": rank 1 (host "), "{text}");
    assert!(text.contains("SIGKILL"), "{text}");
    assert!(output.status.signal().is_none(), "{:?}", output.status);
}

/// What each process of `launch` runs; nothing else has the variable.
#[test]
fn rank_of_a_launched_job() {
    let Ok(part) = env::var(PART) else { return };
    let context = Context::init().unwrap();
    let (rank, size) = (context.rank(), context.size());
    let sum = context.allreduce(&[rank as i64], &named("sum")).unwrap();
    println!("rank {rank} of {size}: sum {}", sum[0]);
    if part == "reduce" {
        return;
    }
    if rank == 1 {
        Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status().expect("kill");
    }
    let error = context.allreduce(&[1.0f32], &named("after")).unwrap_err();
    println!("rank {rank}: {error:?}");
    assert_eq!((error.status(), error.class(), error.rank()), (Status::PeerLost, Class::Context, Some(1)));
}
