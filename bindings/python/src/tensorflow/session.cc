// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <mutex>

namespace hvd::tensorflow {
namespace {

std::shared_mutex mutex;
hvd_context* current = nullptr;
bool current_plain_names = false;

}  // namespace

Session::Session() : lock_(mutex) {}

hvd_context* Session::context() const { return current; }

bool Session::plain_names() const { return current_plain_names; }

void publish(hvd_context* context, bool plain_names) {
  const std::unique_lock lock(mutex);
  current = context;
  current_plain_names = plain_names;
}

}  // namespace hvd::tensorflow
