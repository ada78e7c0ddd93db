// SPDX-License-Identifier: Apache-2.0
// The results of a grouped operation once more, as those of a node that waits for nothing. What
// needs results of an asynchronous kernel, TensorFlow hands to its thread pool one by one, which
// wakes a thread each time; with what needs these, the thread that has them goes on.
#ifndef HVD_PYTHON_TENSORFLOW_GROUPED_RESULTS_H
#define HVD_PYTHON_TENSORFLOW_GROUPED_RESULTS_H

#include "tf_api.h"

namespace hvd::tensorflow {

void* create_grouped_results(TF_OpKernelConstruction* construction);
void compute_grouped_results(void* kernel, TF_OpKernelContext* context);
void delete_grouped_results(void* kernel);

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_GROUPED_RESULTS_H
