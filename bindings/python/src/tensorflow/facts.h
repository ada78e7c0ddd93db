// SPDX-License-Identifier: Apache-2.0
// Kernels that tell what the job is, when they run and not when the graph is built.
#ifndef HVD_PYTHON_TENSORFLOW_FACTS_H
#define HVD_PYTHON_TENSORFLOW_FACTS_H

#include "kinds.h"
#include "tf_api.h"

namespace hvd::tensorflow {

void* new_fact(Fact fact, TF_OpKernelConstruction* construction);
void compute_fact(void* kernel, TF_OpKernelContext* context);
void delete_fact(void* kernel);

template <Fact fact>
void* create_fact(TF_OpKernelConstruction* construction) {
  return new_fact(fact, construction);
}

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_FACTS_H
