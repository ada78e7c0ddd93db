/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor_sets.h"

static void add(bench_tensor_set* set, size_t elements) {
  set->elements[set->tensor_count++] = elements;
}

/* A convolution without bias, then the scale and shift of its batch normalisation. */
static void add_convolution(bench_tensor_set* set, size_t in, size_t out, size_t kernel) {
  add(set, in * out * kernel * kernel);
  add(set, out);
  add(set, out);
}

static void add_linear(bench_tensor_set* set, size_t in, size_t out) {
  add(set, in * out);
  add(set, out);
}

static void add_layer_norm(bench_tensor_set* set, size_t width) {
  add(set, width);
  add(set, width);
}

void bench_set_small(bench_tensor_set* set) {
  set->name = "100x4k";
  set->tensor_count = 0;
  for (int i = 0; i < 100; i++) add(set, 1024);
}

void bench_set_resnet50(bench_tensor_set* set) {
  static const size_t kPlanes[] = {64, 128, 256, 512};
  static const int kBlocks[] = {3, 4, 6, 3};
  set->name = "resnet50";
  set->tensor_count = 0;
  add_convolution(set, 3, 64, 7);
  size_t in = 64;
  for (int stage = 0; stage < 4; stage++) {
    size_t planes = kPlanes[stage];
    for (int block = 0; block < kBlocks[stage]; block++) {
      add_convolution(set, in, planes, 1);
      add_convolution(set, planes, planes, 3);
      add_convolution(set, planes, planes * 4, 1);
      if (block == 0) add_convolution(set, in, planes * 4, 1); /* the shortcut changes width here */
      in = planes * 4;
    }
  }
  add_linear(set, in, 1000);
}

void bench_set_bert(bench_tensor_set* set) {
  const size_t width = 768;
  set->name = "bert_base";
  set->tensor_count = 0;
  add(set, 30522 * width); /* words, positions, segments */
  add(set, 512 * width);
  add(set, 2 * width);
  add_layer_norm(set, width);
  for (int layer = 0; layer < 12; layer++) {
    for (int i = 0; i < 4; i++) add_linear(set, width, width); /* query, key, value, output */
    add_layer_norm(set, width);
    add_linear(set, width, 4 * width);
    add_linear(set, 4 * width, width);
    add_layer_norm(set, width);
  }
  add_linear(set, width, width); /* pooler */
}
