// SPDX-License-Identifier: Apache-2.0
//! What calls say when they fail, and that the next one works.

mod common;

use std::env;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use common::{alone, fresh_job, named, opening, ranks};
use hvd::{Class, Context, InitOptions, LogLevel, OpOptions, Status, Tensor, TensorMut, TensorRef};

#[test]
fn statuses_have_names_and_classes() {
    assert_eq!((Status::Mismatch.number(), Status::Mismatch.name()), (-20, "HVD_ERR_MISMATCH"));
    let classes = [
        (Status::InvalidArgument, Class::Usage),
        (Status::WouldDeadlock, Class::Usage),
        (Status::Mismatch, Class::Operation),
        (Status::Timeout, Class::Operation),
        (Status::SetBroken, Class::ProcessSet),
        (Status::PeerLost, Class::Context),
        (Status::Io, Class::Context),
        (Status::Internal, Class::Internal),
        (Status::Other(-1000), Class::Internal),
    ];
    for (status, class) in classes {
        assert_eq!(status.class(), class, "{status:?}");
    }
    assert!(Class::Usage < Class::Context);
}

#[test]
fn ranks_that_disagree_hear_what_each_said() {
    ranks(2, |context| {
        let error = if context.rank() == 0 {
            context.allreduce(&[1.0f32; 3], &named("x")).unwrap_err()
        } else {
            context.allreduce(&[1.0f64; 3], &named("x")).unwrap_err()
        };
        assert_eq!(error.to_string(), "allreduce \"x\": dtype differs: rank 0 float32, rank 1 float64");
        assert_eq!(format!("{error:?}"), format!("HVD_ERR_MISMATCH: {error}"));
        assert_eq!((error.class(), error.message()), (Class::Operation, &*error.to_string()));
        assert_eq!(context.allreduce(&[1], &named("x")).unwrap()[0], 2);
    });
}

#[test]
fn time_limits_name_the_missing() {
    ranks(2, |context| {
        if context.rank() == 0 {
            let options = named("late").timeout(Duration::from_millis(20));
            let error = context.allreduce(&[1.0f32], &options).unwrap_err();
            assert_eq!(error.status(), Status::Timeout);
            assert!(error.message().contains("missing ranks 1"), "{error}");
        }
        context.barrier(&named("next").no_timeout()).unwrap();
    });
}

#[test]
fn wrong_sizes() {
    let context = alone();
    let data = [1.0f32; 6];
    for shape in [&[2, 2][..], &[7], &[], &[usize::MAX, 2], &[0, usize::MAX], &[6, 0]] {
        let error = TensorRef::shaped(&data, shape).expect_err("a shape of another size");
        assert_eq!(error.status(), Status::InvalidArgument);
        assert!(error.message().starts_with("tensor: 6 elements are given for the shape ["), "{error}");
        assert!(Tensor::new(data.to_vec(), shape).is_err() && TensorMut::shaped(&mut data.clone(), shape).is_err());
    }
    assert!(TensorRef::<f32>::shaped(&[], &[0, usize::MAX]).is_err());
    assert!(TensorRef::<f32>::shaped(&[], &[3, 0, 5]).is_ok());

    let invalid = |result: hvd::Result<()>, text: &str| {
        let error = result.expect_err(text);
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
        assert!(error.message().contains(text), "{error}");
    };
    let mut small = [0.0f32; 5];
    invalid(context.allreduce_into(&data, &mut small, &named("x")), "allreduce \"x\": output: shape is [5]");
    invalid(context.allgather_into(&data, &mut small, &named("x")), "output has 20 bytes, result has 24");
    invalid(context.reducescatter_into(&data, &mut small, &named("x")), "[5]");
    invalid(context.alltoall_into(&data, None, &mut small, &named("x")).map(drop), "20");
    let splits = context.alltoallv(&data, &[3, 3], &named("x"));
    invalid(splits.map(drop), "alltoall \"x\": splits has 2 numbers, the process set has 1 ranks");
    invalid(context.alltoallv(&data, &[usize::MAX], &named("x")).map(drop), "-1");
    let counts = context.grouped_allreduce_into(&[(&data).into()], &mut [], &named("x"));
    invalid(counts, "grouped allreduce \"x\": 1 inputs and 0 outputs are given");
    invalid(context.grouped_allreduce_in_place(&mut [], &named("x")), "count is 0");
    let place = context.allgather_in_place(&mut small, 3..6, &named("x"));
    invalid(place, "allgather in place: the rows are 3..6 of 5");
    let mut whole = [0.0f32; 6];
    assert!(context.allgather_in_place(&mut whole, 1..6, &named("x")).is_err(), "the own part is elsewhere");
    let many = [1usize; 40];
    let deep = TensorRef::shaped(&[1.0f32], &many).unwrap();
    invalid(context.allreduce(deep, &named("x")).map(drop), "ndim");
    assert_eq!(context.allreduce(&data, &named("x")).unwrap()[..], data);
}

#[test]
fn wrong_names_and_arguments() {
    let context = alone();
    let status = |result: hvd::Result<Tensor<i32>>| result.unwrap_err().status();
    assert_eq!(status(context.allreduce(&[1], &named("a\0b"))), Status::InvalidArgument);
    assert_eq!(status(context.allreduce(&[1], &named(""))), Status::InvalidArgument);
    assert_eq!(status(context.allreduce(&[1], &named(&"x".repeat(5000)))), Status::InvalidArgument);
    assert_eq!(status(context.broadcast(&[1], usize::MAX, &named("root"))), Status::InvalidArgument);
    assert_eq!(status(context.allreduce(&[1], &named("nan").prescale(f64::NAN))), Status::InvalidArgument);
    assert_eq!(context.create_process_set(&[usize::MAX]).unwrap_err().status(), Status::InvalidArgument);
    assert_eq!(context.find_process_set(7).unwrap_err().status(), Status::NotFound);
    assert!(context.world().destroy().is_err());
    let other = alone();
    assert_eq!(status(context.allreduce(&[1], &named("foreign").on(&other.world()))), Status::InvalidArgument);
    assert_eq!(context.allreduce(&[1], &named("next")).unwrap()[0], 1);
}

#[test]
fn a_name_in_flight_is_refused() {
    ranks(2, |context| {
        let first = (context.rank() == 0).then(|| context.allreduce_async(vec![1.0f32], &named("twice")).unwrap());
        if context.rank() == 0 {
            let error = context.allreduce_async(vec![1.0f32], &named("twice")).expect_err("a name twice");
            assert_eq!(error.status(), Status::AlreadyExists, "{error}");
        }
        context.barrier(&named("between")).unwrap();
        match first {
            Some(pending) => assert_eq!(pending.wait().unwrap()[0], 2.0),
            None => assert_eq!(context.allreduce(&[1.0f32], &named("twice")).unwrap()[0], 2.0),
        }
    });
}

#[test]
fn a_context_that_cannot_be_opened() {
    let error = InitOptions::new().rank(3).size(2).rendezvous("mem://x").init().unwrap_err();
    assert_eq!(error.class(), Class::Usage, "{error}");
    let error = InitOptions::new().rendezvous("a\0b").init().unwrap_err();
    assert_eq!(error.message(), "init: rendezvous: the text has a NUL byte in it");
    let error = InitOptions::new().rank(usize::MAX).size(1).init().unwrap_err();
    assert_eq!(error.message(), "init: rank is too large");
    let alone = opening(&fresh_job(), 0, 2).timeout(Duration::from_millis(20)).init().unwrap_err();
    assert_eq!(alone.status(), Status::Timeout);
    assert!(alone.message().contains("missing ranks 1 of 2"), "{alone}");
    let unknown = opening(&fresh_job(), 0, 1).option("no_such_option", "1").init().unwrap_err();
    assert!(unknown.message().contains("no_such_option"), "{unknown}");
}

#[test]
fn the_log_comes_and_must_not_call() {
    type Lines = Arc<Mutex<Vec<(LogLevel, String)>>>;
    let lines = Lines::default();
    let context: Arc<OnceLock<Context>> = Arc::default();
    let (seen, inside) = (Arc::clone(&lines), Arc::downgrade(&context));
    let opened = opening(&fresh_job(), 0, 1)
        .option("log_level", "trace")
        .log(move |line| {
            let refused = inside.upgrade().and_then(|context| context.get()?.barrier(&OpOptions::new()).err());
            let text = refused.map_or_else(|| line.message.to_owned(), |error| error.to_string());
            seen.lock().unwrap().push((line.level, text));
            assert!(line.component != "panic");
        })
        .init()
        .unwrap();
    let opened = context.get_or_init(|| opened);
    assert_eq!(opened.rank(), 0);
    let before = lines.lock().unwrap().len();
    assert!(before > 0, "nothing was logged at level trace");
    drop(context);
    let lines = lines.lock().unwrap();
    let late = lines.iter().skip(before).filter(|(_, text)| text.contains("called inside the log function"));
    assert_eq!(late.count(), 0, "the context is gone while it is dropped");
}

/// Set in the process that stalls.
const STALLS: &str = "HVD_RUST_TEST_STALLS";

#[test]
fn without_a_log_function_a_stall_is_told_on_standard_error() {
    let command = || Command::new(env::current_exe().expect("the path of this program"));
    let stalls = ["--exact", "--nocapture", "a_rank_that_comes_late"];
    let done = command().args(stalls).env(STALLS, "1").output().expect("this program");
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
    assert!(told.contains(": W stall] [0]: ") && told.contains("late"), "{told}");
}

/// What the test above runs; nothing else has the variable.
#[test]
fn a_rank_that_comes_late() {
    if env::var_os(STALLS).is_none() {
        return;
    }
    common::ranks(2, |context| {
        context.set_option("stall_check_time_seconds", "1").unwrap();
        if context.rank() == 1 {
            std::thread::sleep(Duration::from_secs(4)); // two checks of the first rank
        }
        context.allreduce(&[1.0f32], &OpOptions::named("late")).unwrap();
    });
}

#[test]
fn a_log_function_that_panics_harms_nobody() {
    let context =
        opening(&fresh_job(), 0, 1).option("log_level", "trace").log(|_| panic!("expected by this test")).init().unwrap();
    context.barrier(&OpOptions::new()).unwrap();
}

#[test]
fn the_log_function_lives_as_long_as_the_library_may_call_it() {
    let held = Arc::new(());
    let inside = Arc::clone(&held);
    let context = opening(&fresh_job(), 0, 1).log(move |_| drop(Arc::clone(&inside))).init().unwrap();
    let result = context.allreduce(&[1.0f32], &OpOptions::new()).unwrap();
    drop(context);
    assert_eq!(Arc::strong_count(&held), 2, "threads of the library end with the last handle");
    drop(result);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn objects_say_what_they_are() {
    let options = opening("mem://x", 0, 1).log(|_| ());
    assert!(format!("{options:?}").starts_with("InitOptions { rank: Some(0), size: Some(1), rendezvous: Some(\"mem://x\")"));
    let context = alone();
    assert_eq!(format!("{context:?} {:?}", context.world()), "Context(rank 0 of 1) ProcessSet(Some(0), ranks [0])");
    let pending = context.allreduce_async(vec![1.0f32], &named("x")).unwrap();
    assert!(format!("{pending:?}").starts_with("Pending("));
    pending.wait().unwrap();
    let mut data = [1i64, 2];
    assert_eq!(format!("{:?}", TensorRef::shaped(&data, &[2, 1]).unwrap()), "int64 [2, 1]");
    context
        .scope(|scope| {
            let first = scope.allreduce_in_place(&mut data, &named("y"))?;
            assert_eq!(format!("{scope:?}"), "Scope(of Context(rank 0 of 1), 1 not waited for)");
            assert!(format!("{first:?}").starts_with("ScopedPending("));
            first.wait().map(drop)
        })
        .unwrap();
}

#[test]
fn settings_and_metrics() {
    let context = opening(&fresh_job(), 0, 1).option("op_timeout", "17").init().unwrap();
    assert_eq!(context.option("op_timeout").unwrap(), "17");
    let error = context.option("nothing").unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
    let table: Vec<_> = hvd::options().collect();
    let known = table.iter().find(|option| option.name == "op_timeout").expect("op_timeout");
    assert!(!known.help.is_empty());
    let changeable = table.iter().find(|option| option.help.contains("at run time")).expect("one changes at run time");
    let value = context.option(changeable.name).unwrap();
    context.set_option(changeable.name, &value).unwrap();
    assert_eq!(context.set_option("hostname", "elsewhere").unwrap_err().status(), Status::InvalidState);
    context.allreduce(&[1.0f32; 10], &OpOptions::new()).unwrap();
    let metrics = context.metrics().unwrap();
    assert!(metrics.iter().any(|metric| metric.value > 0.0 && metric.unit == "1"), "{metrics:?}");
    context.allreduce(&[1.0f32; 10], &OpOptions::named("recorded")).unwrap();
    let histograms = context.histograms().unwrap();
    let sizes = histograms.iter().find(|one| one.name == "operation_size").expect("a histogram");
    assert!(hvd::metric_help("operation_size").unwrap().contains("operation") && hvd::metric_help("nonsense").is_none());
    assert_eq!((sizes.unit, sizes.count, sizes.sum, sizes.buckets[6]), ("bytes", 2, 80, 2));
    let records = context.records(0).unwrap();
    let record = records.iter().find(|record| record.name == "recorded").expect("a record");
    assert_eq!((record.kind, record.bytes, record.status), ("allreduce", 40, 0));
    assert!(record.ended >= record.submitted && context.records(record.number.unwrap()).unwrap().is_empty());
    assert_eq!(context.world().arrivals(record.use_number.unwrap()).unwrap().len(), 1);
    let path = std::env::temp_dir().join(format!("timeline-{}.json", std::process::id()));
    context.start_timeline(path.to_str().unwrap(), true).unwrap();
    context.allreduce(&[1.0f32; 10], &OpOptions::named("on the timeline")).unwrap();
    context.stop_timeline().unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"on the timeline\""));
    std::fs::remove_file(path).unwrap();
    assert_eq!(context.start_timeline("/no/such/folder/t.json", false).unwrap_err().status(), Status::InvalidArgument);
    let topology = context.topology();
    assert_eq!((topology.rank, topology.size, topology.local_size, topology.homogeneous), (0, 1, 1, true));
    assert_eq!(hvd::version().split('.').count(), 3);
    assert!(hvd::version_number() >= 10000 && hvd::has_feature("shm") && !hvd::has_feature("nothing\0"));
}
