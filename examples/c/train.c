/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a logistic regression, alone or with several ranks, to the same weights: `horovodrun -np 2
 * ./train`.
 *
 * Every rank has each size-th sample. In each step the ranks sum up their gradients, so that all go
 * the same way; at the end rank 0 trains on all samples alone and compares.
 */
#include <hvd/hvd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  kSamples = 600,
  kSteps = 200,
  kFeatures = 8,
  kWeights = kFeatures + 1,
  kSums = kFeatures + 3
};

static const double kRate = 2.0;
static hvd_error error = HVD_ERROR_INIT;

static void must(hvd_status status) {
  if (status == HVD_OK) return;
  fprintf(stderr, "%s: %s\n", hvd_status_name(status), error.message);
  exit(1);
}

/* Inputs between -1 and 1; the label: whether a plane that the training must find has the sample
 * above it. */
static int sample(int i, double *inputs) {
  double height = 0;
  for (int j = 0; j < kFeatures; ++j) {
    inputs[j] = (i * i * 7 + i * (j + 1) * 31 + j * 57) % 199 / 99.0 - 1;
    height += inputs[j] * (j - 2.5);
  }
  return height > 0.5;
}

/* The gradient, then loss and correct answers, each summed over some samples. */
static void step(const double *weights, int first, int stride, double *sums) {
  for (int j = 0; j < kSums; ++j) sums[j] = 0;
  for (int i = first; i < kSamples; i += stride) {
    double inputs[kFeatures];
    const int above = sample(i, inputs);
    double score = weights[kFeatures];
    for (int j = 0; j < kFeatures; ++j) score += inputs[j] * weights[j];
    const double off = 1 / (1 + exp(-score)) - above;
    for (int j = 0; j < kFeatures; ++j) sums[j] += off * inputs[j];
    sums[kFeatures] += off;
    sums[kFeatures + 1] += log1p(exp(-fabs(score))) + fmax(score, 0) - above * score;
    sums[kFeatures + 2] += (score > 0) == above;
  }
}

static void in_place(hvd_context *context, double *data, int64_t count, const char *name,
                     int broadcasts) {
  const hvd_tensor tensor = {data, &count, 1, HVD_FLOAT64, HVD_CPU, 0, {0, 0}};
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name;
  hvd_handle *handle = NULL;
  must(broadcasts ? hvd_broadcast_async(context, &tensor, &tensor, &options, &handle, &error)
                  : hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &error));
  must(hvd_wait(handle, -1, &error));
  hvd_handle_free(handle);
}

/* Leaves the sums of the last step. Without a context: alone. */
static void train(hvd_context *context, double *weights, int first, int stride, double *sums) {
  for (int i = 0; i < kSteps; ++i) {
    step(weights, first, stride, sums);
    if (context != NULL) in_place(context, sums, kSums, "step", 0);
    for (int j = 0; j < kWeights; ++j) weights[j] -= kRate * sums[j] / kSamples;
  }
}

int main(void) {
  hvd_context *context = NULL;
  must(hvd_init(NULL, &context, &error));
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  must(hvd_topology_get(context, &topology, &error));

  /* The ranks begin differently; then all have what rank 0 has. */
  double weights[kWeights], alone_weights[kWeights], sums[kSums];
  for (int j = 0; j < kWeights; ++j) weights[j] = 0.01 * (topology.rank + 1);
  in_place(context, weights, kWeights, "start", 1);
  for (int j = 0; j < kWeights; ++j) alone_weights[j] = weights[j];

  train(context, weights, topology.rank, topology.size, sums);
  const double loss = sums[kFeatures + 1] / kSamples, accuracy = sums[kFeatures + 2] / kSamples;
  int good = accuracy > 0.95;
  if (topology.rank == 0) {
    printf("%d rank%s: loss %.6f, accuracy %.1f%%\n", topology.size, topology.size > 1 ? "s" : "",
           loss, 100 * accuracy);
    train(NULL, alone_weights, 0, 1, sums);
    const double alone = sums[kFeatures + 1] / kSamples;
    printf("alone: loss %.6f\n", alone);
    good = good && fabs(loss - alone) < 1e-9;
    for (int j = 0; j < kWeights; ++j) good = good && fabs(weights[j] - alone_weights[j]) < 1e-9;
  }
  hvd_context_free(context);
  return good ? 0 : 1;
}
