// SPDX-License-Identifier: Apache-2.0
// TensorFlow's `done` of an asynchronous kernel, in a form that may be called after the kernel has
// returned.
#ifndef HVD_PYTHON_TENSORFLOW_DONE_H
#define HVD_PYTHON_TENSORFLOW_DONE_H

#include <functional>

#include "tf_api.h"

namespace hvd::tensorflow {

// To be called before the compute function returns: what `done` points to may end then.
std::function<void()> kept_done(TF_AsyncOpKernelDoneCallback* done);

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_DONE_H
