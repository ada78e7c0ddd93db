// SPDX-License-Identifier: Apache-2.0
//! Every operation in every form, with ranks as threads.

mod common;

use common::{block_on, named, ranks};
use hvd::{bf16, f16, Bool, DType, Element, OpOptions, ReduceOp, Tensor, TensorMut, TensorRef};

/// 1, 2, 3, ... plus ten times the rank.
fn input(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| (10 * rank + i + 1) as f32).collect()
}

#[test]
fn allreduce_in_all_forms() {
    ranks(3, |context| {
        let mine = input(context.rank(), 4);
        let expected = [33.0, 36.0, 39.0, 42.0];
        let result = context.allreduce(&mine, &named("result")).unwrap();
        assert_eq!((&result[..], result.shape()), (&expected[..], &[4][..]));
        let mut place = mine.clone();
        context.allreduce_in_place(&mut place, &named("place")).unwrap();
        assert_eq!(place, expected);
        let mut into = [0.0; 4];
        context.allreduce_into(&mine, &mut into, &named("into")).unwrap();
        assert_eq!(into, expected);
        let pending = context.allreduce_async(mine.clone(), &named("async")).unwrap();
        assert_eq!(&pending.wait().unwrap()[..], expected);
        let (mut lent, mut out) = (mine.clone(), [0.0; 4]);
        context
            .scope(|scope| {
                let first = scope.allreduce_in_place(&mut lent, &named("lent"))?;
                let second = scope.allreduce_into(&mine, &mut out, &named("lent into"))?;
                assert_eq!(first.wait()?, expected);
                assert_eq!(second.wait()?, expected);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn a_burst_is_announced_at_its_end() {
    ranks(2, |context| {
        let burst = context.burst();
        let pending: Vec<_> =
            (0..20).map(|i| context.allreduce_async(vec![i as f32; 300], &named(&format!("burst {i}"))).unwrap()).collect();
        drop(burst);
        for (i, one) in pending.into_iter().enumerate() {
            assert_eq!(one.wait().unwrap()[299], 2.0 * i as f32);
        }
    });
}

#[test]
fn reduce_ops_and_scales() {
    ranks(2, |context| {
        let mine = [context.rank() as f64 + 1.0, 4.0];
        let reduced = |op| context.allreduce(&mine, &named("op").reduce(op)).unwrap().into_vec();
        assert_eq!(reduced(ReduceOp::Sum), [3.0, 8.0]);
        assert_eq!(reduced(ReduceOp::Average), [1.5, 4.0]);
        assert_eq!(reduced(ReduceOp::Min), [1.0, 4.0]);
        assert_eq!(reduced(ReduceOp::Max), [2.0, 4.0]);
        assert_eq!(reduced(ReduceOp::Product), [2.0, 16.0]);
        assert_eq!(reduced(ReduceOp::Adasum).len(), 2);
        let scaled = named("scaled").prescale(0.5).postscale(3.0).priority(2);
        assert_eq!(context.allreduce(&mine, &scaled).unwrap().into_vec(), [4.5, 12.0]);
    });
}

#[test]
fn every_element_travels() {
    fn check<T: Element>(context: &hvd::Context, one: T, two: T, dtype: DType) {
        assert_eq!((T::DTYPE, dtype.size()), (dtype, size_of::<T>()));
        let name = format!("gather {dtype}");
        let gathered = context.allgather(&[[one, two][context.rank()]], &named(&name)).unwrap();
        assert_eq!(&gathered[..], [one, two]);
    }
    ranks(2, |context| {
        check(&context, 1u8, 2, DType::UInt8);
        check(&context, -1i8, 2, DType::Int8);
        check(&context, 1u16, 65535, DType::UInt16);
        check(&context, -300i16, 2, DType::Int16);
        check(&context, u32::MAX, 2, DType::UInt32);
        check(&context, i32::MIN, 2, DType::Int32);
        check(&context, u64::MAX, 2, DType::UInt64);
        check(&context, i64::MAX, 2, DType::Int64);
        check(&context, f16::from_f32(0.5), f16::MAX, DType::Float16);
        check(&context, bf16::from_f32(0.5), bf16::MAX, DType::BFloat16);
        check(&context, 0.5f32, f32::MAX, DType::Float32);
        check(&context, 0.5f64, f64::MIN, DType::Float64);
        check(&context, Bool::from(true), Bool::from(false), DType::Bool);
        // What is neither 0 nor 1 is a byte all the same.
        let odd = context.broadcast(&[Bool::from_byte(7)], 0, &named("odd")).unwrap();
        assert_eq!((odd[0].to_byte(), odd[0].get()), (7, true));
        let halves = context.allreduce(&[f16::from_f32(1.5), f16::ONE], &named("halves")).unwrap();
        assert_eq!(&halves[..], [f16::from_f32(3.0), f16::from_f32(2.0)]);
    });
}

#[test]
fn allgather_in_all_forms() {
    ranks(3, |context| {
        let rank = context.rank();
        let mine = Tensor::new(input(rank, 2 * (rank + 1)), &[rank + 1, 2]).unwrap();
        let expected = [1.0, 2.0, 11.0, 12.0, 13.0, 14.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0];
        let result = context.allgather(&mine, &named("result")).unwrap();
        assert_eq!((&result[..], result.shape()), (&expected[..], &[6, 2][..]));
        let mut into = vec![0.0; 12];
        context.allgather_into(&mine, TensorMut::shaped(&mut into, &[6, 2]).unwrap(), &named("into")).unwrap();
        assert_eq!(into, expected);
        let (mut whole, first) = (vec![0.0; 12], [0, 1, 3][rank]);
        whole[2 * first..][..mine.len()].copy_from_slice(&mine);
        let place = TensorMut::shaped(&mut whole, &[6, 2]).unwrap();
        context.allgather_in_place(place, first..first + rank + 1, &named("place")).unwrap();
        assert_eq!(whole, expected);
        let pending = context.allgather_async(mine.clone(), &named("async")).unwrap();
        assert_eq!(block_on(pending).unwrap(), result);
        let mut out = Tensor::new(vec![0.0; 12], &[6, 2]).unwrap();
        context
            .scope(|scope| {
                let first = scope.allgather(&mine, &named("lent"))?;
                let second = scope.allgather_into(&mine, &mut out, &named("lent into"))?;
                assert_eq!(first.wait()?, result);
                assert_eq!(second.wait()?, expected);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn broadcast_in_all_forms() {
    ranks(2, |context| {
        let mine = input(context.rank(), 3);
        let expected = [11.0, 12.0, 13.0];
        assert_eq!(&context.broadcast(&mine, 1, &named("result")).unwrap()[..], expected);
        let (mut place, mut into, mut lent) = (mine.clone(), [0.0; 3], mine.clone());
        context.broadcast_in_place(&mut place, 1, &named("place")).unwrap();
        context.broadcast_into(&mine, &mut into, 1, &named("into")).unwrap();
        context.scope(|scope| scope.broadcast_in_place(&mut lent, 1, &named("lent")).map(drop)).unwrap();
        assert_eq!((&place[..], &into, &lent[..]), (&expected[..], &expected, &expected[..]));
        let pending = context.broadcast_async(mine, 1, &named("async")).unwrap();
        assert_eq!(pending.wait().unwrap().into_vec(), expected);
        assert_eq!(context.broadcast(&Tensor::scalar(context.rank() as i64), 1, &named("scalar")).unwrap()[..], [1]);
    });
}

#[test]
fn alltoall_in_all_forms() {
    ranks(2, |context| {
        let rank = context.rank();
        let mine = input(rank, 4);
        let expected = [[1.0, 2.0, 11.0, 12.0], [3.0, 4.0, 13.0, 14.0]][rank];
        assert_eq!(&context.alltoall(&mine, &named("equal")).unwrap()[..], expected);
        let async_equal = context.alltoall_async(mine.clone(), &named("async")).unwrap();
        assert_eq!(&async_equal.wait().unwrap()[..], expected);
        // Rank 0 sends 1 and 3 elements, rank 1 sends 2 and 1 and keeps the last.
        let splits = [[1, 3], [2, 1]][rank];
        let expected = [&[1.0, 11.0, 12.0][..], &[2.0, 3.0, 4.0, 13.0]][rank];
        let came = [[1, 2], [3, 1]][rank];
        let received = context.alltoallv(&mine, &splits, &named("splits")).unwrap();
        assert_eq!((&received.tensor[..], &received.splits[..]), (expected, &came[..]));
        let received = context.alltoallv_async(mine.clone(), &splits, &named("async splits")).unwrap().wait().unwrap();
        assert_eq!((&received.tensor[..], &received.splits[..]), (expected, &came[..]));
        let mut into = vec![0.0; expected.len()];
        assert_eq!(context.alltoall_into(&mine, Some(&splits), &mut into, &named("into")).unwrap(), came);
        assert_eq!(into, expected);
        context
            .scope(|scope| {
                assert_eq!(scope.alltoallv(&mine, &splits, &named("lent"))?.wait()?.splits, came);
                assert_eq!(scope.alltoall(&mine, &named("lent equal"))?.wait()?.len(), 4);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn reducescatter_in_all_forms() {
    ranks(2, |context| {
        let rank = context.rank();
        let mine = input(rank, 6);
        let rows = TensorRef::shaped(&mine, &[3, 2]).unwrap();
        let expected = [&[12.0, 14.0, 16.0, 18.0][..], &[20.0, 22.0]][rank];
        let result = context.reducescatter(rows, &named("result")).unwrap();
        assert_eq!((&result[..], result.shape()), (expected, &[2 - rank, 2][..]));
        let mut into = Tensor::new(vec![0.0; expected.len()], &[2 - rank, 2]).unwrap();
        context.reducescatter_into(rows, &mut into, &named("into")).unwrap();
        assert_eq!(into, result);
        let owned = Tensor::new(mine.clone(), &[3, 2]).unwrap();
        let pending = context.reducescatter_async(owned, &named("async")).unwrap();
        assert_eq!(pending.wait().unwrap(), result);
        context
            .scope(|scope| {
                assert_eq!(scope.reducescatter(rows, &named("lent"))?.wait()?, result);
                assert_eq!(scope.reducescatter_into(rows, &mut into, &named("lent into"))?.wait()?, expected);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn groups_of_several_dtypes() {
    ranks(2, |context| {
        let rank = context.rank();
        let (floats, whole) = (input(rank, 2), [rank as i64 + 1]);
        let results = context.grouped_allreduce(&[(&floats).into(), (&whole).into()], &named("sums")).unwrap();
        assert_eq!(results[0].as_slice::<f32>(), Some(&[12.0, 14.0][..]));
        assert_eq!(results[1].as_slice::<i64>(), Some(&[3][..]));
        assert_eq!(results[1].as_slice::<f32>(), None);
        let (mut a, mut b) = (floats.clone(), whole);
        context.grouped_allreduce_in_place(&mut [(&mut a).into(), (&mut b).into()], &named("place")).unwrap();
        assert_eq!((&a[..], b), (&[12.0, 14.0][..], [3]));
        let (mut a, mut b) = ([0.0f32; 2], [0i64; 1]);
        let outputs = &mut [(&mut a).into(), (&mut b).into()];
        context.grouped_allreduce_into(&[(&floats).into(), (&whole).into()], outputs, &named("into")).unwrap();
        assert_eq!((a, b), ([12.0, 14.0], [3]));

        let owned = vec![floats.clone().into(), whole.to_vec().into()];
        let mut sums = context.grouped_allreduce_async(owned, &named("async")).unwrap().wait().unwrap();
        assert_eq!(sums.pop().unwrap().downcast::<i64>().unwrap().into_vec(), [3]);
        assert!(sums.pop().unwrap().downcast::<u8>().is_err());

        let inputs = [(&floats).into(), (&whole).into()];
        let gathered = context.grouped_allgather(&inputs, &named("gather")).unwrap();
        assert_eq!(gathered[1].as_slice::<i64>(), Some(&[1, 2][..]));
        let (mut a, mut b) = ([0.0f32; 4], [0i64; 2]);
        context.grouped_allgather_into(&inputs, &mut [(&mut a).into(), (&mut b).into()], &named("gather into")).unwrap();
        assert_eq!((a, b), ([1.0, 2.0, 11.0, 12.0], [1, 2]));
        let owned = vec![floats.clone().into(), whole.to_vec().into()];
        assert_eq!(context.grouped_allgather_async(owned, &named("gather async")).unwrap().wait().unwrap().len(), 2);

        let scattered = context.grouped_reducescatter(&[(&floats).into()], &named("scatter")).unwrap();
        assert_eq!(scattered[0].as_slice(), Some(&[[12.0f32], [14.0]][rank][..]));
        let mut a = [0.0f32];
        context.grouped_reducescatter_into(&[(&floats).into()], &mut [(&mut a).into()], &named("scatter into")).unwrap();
        assert_eq!(a, [[12.0], [14.0]][rank]);
        let pending = context.grouped_reducescatter_async(vec![floats.clone().into()], &named("scatter async")).unwrap();
        assert_eq!(pending.wait().unwrap()[0].shape(), [1]);

        let (mut a, mut b) = (floats.clone(), whole);
        context
            .scope(|scope| {
                let lent = vec![(&mut a).into(), (&mut b).into()];
                assert_eq!(scope.grouped_allreduce_in_place(lent, &named("lent"))?.wait()?.len(), 2);
                assert_eq!(scope.grouped_allgather(&inputs, &named("lent gather"))?.wait()?.len(), 2);
                let scattered = scope.grouped_reducescatter(&[(&floats).into()], &named("lent scatter"))?;
                assert_eq!(scattered.wait()?.len(), 1);
                Ok(())
            })
            .unwrap();
        assert_eq!((&a[..], b), (&[12.0, 14.0][..], [3]));
    });
}

#[test]
fn operations_in_other_orders_and_unnamed() {
    ranks(2, |context| {
        let names = [["a", "b"], ["b", "a"]][context.rank()];
        let pending: Vec<_> =
            names.iter().map(|name| context.allreduce_async(vec![name.len() as i32], &named(name)).unwrap()).collect();
        for sum in pending {
            assert_eq!(sum.wait().unwrap().into_vec(), [2]);
        }
        assert_eq!(context.allreduce(&[1u8], &OpOptions::new()).unwrap().into_vec(), [2]);
        context.barrier(&named("barrier")).unwrap();
        context.barrier_async(&OpOptions::default()).unwrap().wait().unwrap();
    });
}

#[test]
fn join_names_the_last() {
    let last = ranks(2, |context| {
        if context.rank() == 1 {
            // Rank 0 has joined already, or will: it contributes nothing.
            assert_eq!(context.allreduce(&[5i32], &named("alone")).unwrap().into_vec(), [5]);
            return context.join(&OpOptions::new()).unwrap();
        }
        context.join_async(&OpOptions::new()).unwrap().wait().unwrap()
    });
    assert_eq!(last, [1, 1]);
}

#[test]
fn process_sets() {
    ranks(4, |context| {
        assert_eq!((context.world().id(), context.world().size()), (Some(0), 4));
        let even = context.create_process_set(&[2, 0]).unwrap();
        let odd = context.create_process_set(&[1, 3]).unwrap();
        let mine = if even.is_member() { &even } else { &odd };
        assert_eq!((mine.rank(), mine.size()), (Some(context.rank() / 2), 2));
        assert_eq!(even.ranks(), [0, 2]);
        let sum = context.allreduce(&[context.rank() as i32], &named("sum").on(mine)).unwrap();
        assert_eq!(sum[0], [2, 4][context.rank() % 2]);
        assert_eq!(context.process_set_ids().unwrap(), [0, 1, 2]);
        let found = context.find_process_set(2).unwrap();
        assert_eq!((found.id(), found.ranks()), (Some(2), &[1, 3][..]));
        let clone = even.clone();
        even.destroy().unwrap();
        odd.destroy().unwrap();
        assert_eq!((clone.id(), found.id(), clone.ranks()), (None, None, &[0, 2][..]));
        let error = clone.clone().destroy().unwrap_err();
        assert_eq!(error.status(), hvd::Status::InvalidState);
        let error = context.allreduce(&[1], &named("late").on(&clone)).unwrap_err();
        assert_eq!(error.status(), hvd::Status::InvalidState, "{error}");
        assert_eq!(context.find_process_set(2).unwrap_err().status(), hvd::Status::NotFound);
        context.barrier(&named("nobody leaves before")).unwrap();
    });
}
