/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_sets.h: how many float32 elements each gradient of a network has, derived from the
 * network's architecture. */
#ifndef HVD_BENCHMARKS_TENSOR_SETS_H
#define HVD_BENCHMARKS_TENSOR_SETS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_MAX_TENSORS = 256 };

typedef struct bench_tensor_set {
  const char* name;
  size_t tensor_count;
  size_t elements[BENCH_MAX_TENSORS];
} bench_tensor_set;

void bench_set_small(bench_tensor_set* set);    /* 100 tensors of 4 KB */
void bench_set_resnet50(bench_tensor_set* set); /* 161 tensors, 25,557,032 elements */
void bench_set_bert(bench_tensor_set* set);     /* BERT-base: 199 tensors, 109,482,240 elements */

#ifdef __cplusplus
}
#endif
#endif
