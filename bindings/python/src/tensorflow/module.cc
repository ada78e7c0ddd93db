// SPDX-License-Identifier: Apache-2.0
// What tf.load_op_library loads. It collects the operations that are registered meanwhile, so this
// happens on loading.
#include <string>

#include "ops.h"
#include "session.h"
#include "tf_api.h"

namespace {

// Not a std::string object: the text is read when the process ends, too.
const char* problem = "";

__attribute__((constructor)) void on_loading() {
  problem = hvd::tensorflow::load_api();
  if (*problem != '\0') return;
  const std::string said = hvd::tensorflow::register_ops();
  if (!said.empty()) problem = (new std::string(said))->c_str();
}

}  // namespace

extern "C" {

// Why the operations are not there: "" if they are.
__attribute__((visibility("default"))) const char* hvd_tensorflow_problem() { return problem; }

// The context that operations use from now on, or NULL.
__attribute__((visibility("default"))) void hvd_tensorflow_publish(hvd_context* context) {
  hvd::tensorflow::publish(context);
}

}  // extern "C"
