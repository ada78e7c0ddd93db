// SPDX-License-Identifier: Apache-2.0
// The operations' definitions and kernels in TensorFlow's registries.
#ifndef HVD_PYTHON_TENSORFLOW_OPS_H
#define HVD_PYTHON_TENSORFLOW_OPS_H

#include <string>

namespace hvd::tensorflow {

// Registers everything. "" or what TensorFlow said against it.
std::string register_ops();

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_OPS_H
