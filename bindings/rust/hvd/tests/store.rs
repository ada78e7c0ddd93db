// SPDX-License-Identifier: Apache-2.0
//! Ranks that meet at a store written in Rust.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use hvd::{InitOptions, OpOptions, Status, Store, StoreError};

#[derive(Default)]
struct Shared {
    values: Mutex<HashMap<String, Vec<u8>>>,
    counters: Mutex<HashMap<String, i64>>,
    changed: Condvar,
}

impl Store for Shared {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.values.lock().unwrap().insert(key.to_owned(), value.to_vec());
        self.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, timeout: Option<Duration>) -> Result<Vec<u8>, StoreError> {
        let values = self.values.lock().unwrap();
        let limit = timeout.unwrap_or(Duration::from_secs(30));
        let (values, _) = self.changed.wait_timeout_while(values, limit, |values| !values.contains_key(key)).unwrap();
        values.get(key).cloned().ok_or(StoreError::Timeout)
    }

    fn add(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        let mut counters = self.counters.lock().unwrap();
        let sum = counters.entry(key.to_owned()).or_default();
        *sum += delta;
        Ok(*sum)
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.values.lock().unwrap().remove(key);
        Ok(())
    }
}

#[test]
fn ranks_meet_at_a_store_of_their_own() {
    let store = Shared::default();
    thread::scope(|scope| {
        for rank in 0..3 {
            let store = &store;
            scope.spawn(move || {
                let context = InitOptions::new().rank(rank).size(3).store(store).init().unwrap();
                assert_eq!(context.allreduce(&[rank as i64], &OpOptions::new()).unwrap()[0], 3);
            });
        }
    });
}

struct Broken;

impl Store for Broken {
    fn set(&self, _key: &str, _value: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::Failed)
    }

    fn get(&self, _key: &str, _timeout: Option<Duration>) -> Result<Vec<u8>, StoreError> {
        Err(StoreError::Timeout)
    }

    fn add(&self, _key: &str, _delta: i64) -> Result<i64, StoreError> {
        panic!("expected by this test")
    }

    fn remove(&self, _key: &str) -> Result<(), StoreError> {
        Err(StoreError::Failed)
    }
}

#[test]
fn a_store_that_fails_or_panics_is_an_error_of_init() {
    let error = InitOptions::new().rank(0).size(2).store(&Broken).init().unwrap_err();
    assert!(matches!(error.status(), Status::Io | Status::Timeout), "{error:?}");
    let both = InitOptions::new().rank(0).size(1).store(&Broken).rendezvous("mem://both").init().unwrap_err();
    assert_eq!(both.message(), "hvd_init_options: both store and rendezvous are given");
}
