// SPDX-License-Identifier: Apache-2.0
// What is known of the results' shapes before the operations run.
#ifndef HVD_PYTHON_TENSORFLOW_SHAPES_H
#define HVD_PYTHON_TENSORFLOW_SHAPES_H

#include "tf_api.h"

namespace hvd::tensorflow {

void same_shapes(TF_ShapeInferenceContext* context, TF_Status* status);
// Rows that depend on the ranks, the rest as in the inputs.
void unknown_rows(TF_ShapeInferenceContext* context, TF_Status* status);
// alltoall: unknown rows, and a vector.
void rows_and_vector(TF_ShapeInferenceContext* context, TF_Status* status);
void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status);
void no_shape(TF_ShapeInferenceContext* context, TF_Status* status);

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_SHAPES_H
