// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hvd/hvd.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operation.h"

namespace hvd::python {

// An allreduce in place of one tensor, or of a group of them, that is started again and again,
// wherever they lie then.
class Prepared {
 public:
  // dtype and shape of each tensor
  using Described = std::vector<std::pair<hvd_dtype, std::vector<int64_t>>>;

  Prepared(std::string name, Described tensors, const hvd_op_options& options);
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  // `addresses`: of size() tensors.
  hvd_status start(hvd_context* context, const uintptr_t* addresses, hvd_handle** handle,
                   hvd_error* error);
  const std::string& name() const { return name_; }
  size_t size() const { return tensors_.size(); }

 private:
  std::string name_;
  Described described_;
  std::vector<hvd_tensor> tensors_;
  hvd_op_options options_;
};

// Allreduces that were started together. All members are used with the GIL held.
class Burst {
 public:
  // `prepared`: a list of Prepared; `addresses`: where their tensors are, one after the other.
  Burst(hvd_context* context, pybind11::list prepared, const std::vector<uintptr_t>& addresses,
        Kept kept);
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;
  // What has not ended is left to the orphans.
  ~Burst();

  // Returns when all have ended; raises the error of the first that failed. Ctrl-C ends the wait,
  // not the operations.
  void wait();

 private:
  void release();

  pybind11::list prepared_;
  Kept kept_;
  std::vector<hvd_handle*> handles_;
  size_t ended_ = 0;  // as many of the first are known to have ended
};

}  // namespace hvd::python
