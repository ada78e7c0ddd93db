// SPDX-License-Identifier: Apache-2.0
#include "shapes.h"

#include <memory>

namespace hvd::tensorflow {
namespace {

struct Delete {
  void operator()(TF_ShapeHandle* shape) const { tf().DeleteShapeHandle(shape); }
};
using Shape = std::unique_ptr<TF_ShapeHandle, Delete>;

Shape new_shape() { return Shape(tf().NewShapeHandle()); }

Shape unknown_vector(TF_ShapeInferenceContext* context) {
  // TensorFlow's number for a size that is not known is -1, which this function passes on.
  return Shape(tf().ShapeInferenceContextVectorFromSize(context, static_cast<size_t>(-1)));
}

void with_unknown_rows(TF_ShapeInferenceContext* context, int index, TF_Status* status) {
  const Shape input = new_shape();
  tf().ShapeInferenceContextGetInput(context, index, input.get(), status);
  if (tf().GetCode(status) != kOk || tf().ShapeInferenceContextRankKnown(context, input.get()) == 0)
    return;
  Shape result = unknown_vector(context);
  const int64_t rank = tf().ShapeInferenceContextRank(context, input.get());
  if (rank > 1) {
    const Shape row = new_shape();
    tf().ShapeInferenceContextSubshape(context, input.get(), 1, rank, row.get(), status);
    if (tf().GetCode(status) != kOk) return;
    const Shape rows = std::move(result);
    result = new_shape();
    tf().ShapeInferenceContextConcatenateShapes(context, rows.get(), row.get(), result.get(),
                                                status);
    if (tf().GetCode(status) != kOk) return;
  }
  tf().ShapeInferenceContextSetOutput(context, index, result.get(), status);
}

}  // namespace

void same_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  const auto count = static_cast<int>(tf().ShapeInferenceContextNumInputs(context));
  for (int index = 0; index < count && tf().GetCode(status) == kOk; ++index) {
    const Shape shape = new_shape();
    tf().ShapeInferenceContextGetInput(context, index, shape.get(), status);
    if (tf().GetCode(status) == kOk)
      tf().ShapeInferenceContextSetOutput(context, index, shape.get(), status);
  }
}

void unknown_rows(TF_ShapeInferenceContext* context, TF_Status* status) {
  tf().ShapeInferenceContextSetUnknownShape(context, status);
  const auto count = static_cast<int>(tf().ShapeInferenceContextNumInputs(context));
  for (int index = 0; index < count && tf().GetCode(status) == kOk; ++index)
    with_unknown_rows(context, index, status);
}

void rows_and_vector(TF_ShapeInferenceContext* context, TF_Status* status) {
  tf().ShapeInferenceContextSetUnknownShape(context, status);
  if (tf().GetCode(status) == kOk) with_unknown_rows(context, 0, status);
  if (tf().GetCode(status) != kOk) return;
  const Shape vector = unknown_vector(context);
  tf().ShapeInferenceContextSetOutput(context, 1, vector.get(), status);
}

void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  const Shape scalar(tf().ShapeInferenceContextScalar(context));
  tf().ShapeInferenceContextSetOutput(context, 0, scalar.get(), status);
}

void no_shape(TF_ShapeInferenceContext*, TF_Status*) {}

}  // namespace hvd::tensorflow
