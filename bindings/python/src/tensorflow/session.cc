// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <mutex>

namespace hvd::tensorflow {
namespace {

std::shared_mutex mutex;
hvd_context* current = nullptr;

}  // namespace

Session::Session() : lock_(mutex) {}

hvd_context* Session::context() const { return current; }

void publish(hvd_context* context) {
  const std::unique_lock lock(mutex);
  current = context;
}

}  // namespace hvd::tensorflow
