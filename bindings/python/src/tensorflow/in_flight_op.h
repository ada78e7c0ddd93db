// SPDX-License-Identifier: Apache-2.0
// One run of a node: from TensorFlow's call to its `done` callback.
#ifndef HVD_PYTHON_TENSORFLOW_IN_FLIGHT_OP_H
#define HVD_PYTHON_TENSORFLOW_IN_FLIGHT_OP_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective.h"
#include "done.h"
#include "hvd/hvd.h"
#include "session.h"
#include "tf_api.h"

namespace hvd::tensorflow {

// Owns itself from start() on and ends on the engine's callback thread, or in start() if nothing
// could be started.
class InFlightOp {
 public:
  InFlightOp(Collective& collective, TF_OpKernelContext* context,
             TF_AsyncOpKernelDoneCallback* done)
      : collective_(collective), context_(context), done_(kept_done(done)) {}
  ~InFlightOp();
  InFlightOp(const InFlightOp&) = delete;
  InFlightOp& operator=(const InFlightOp&) = delete;

  static void start(std::unique_ptr<InFlightOp> op);

 private:
  const Attributes& attributes() const { return collective_.attributes(); }
  // Each returns whether the operation goes on; if not, fail() has been called.
  bool read_inputs();
  bool read_input(int index, bool into_output);
  bool read_splits();
  bool make_outputs(hvd_process_set* set);
  bool submit(const Session& session, hvd_process_set* set, hvd_handle** handle);
  hvd_status submit_by_kind(hvd_context* context, const hvd_op_options& options,
                            hvd_handle** handle, hvd_error* error);
  void collect(hvd_handle* handle, hvd_status status);
  void collect_gathered(hvd_handle* handle);
  void collect_splits(hvd_handle* handle);
  bool fail(int code, const std::string& message);
  bool fail(const hvd_error& error);
  static void ended(void* user_data, hvd_handle* handle, hvd_status status) noexcept;
  static void finish(std::unique_ptr<InFlightOp> op);

  Collective& collective_;
  TF_OpKernelContext* context_;
  std::function<void()> done_;
  std::vector<TF_Tensor*> held_;  // what keeps the buffers alive
  std::vector<hvd_tensor> inputs_;
  std::vector<hvd_tensor> outputs_;  // empty: the engine allocates
  std::vector<int> types_;           // TensorFlow's, of the inputs
  std::vector<std::unique_ptr<int64_t[]>> shapes_;
  std::vector<int64_t> splits_;
};

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_IN_FLIGHT_OP_H
