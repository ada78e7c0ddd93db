// SPDX-License-Identifier: Apache-2.0
// The plug-in's table.
#include "backend/plugin/plugin.h"

#include <gloo/config.h>

#include <cstdio>
#include <limits>
#include <memory>

#include "backend/gloo/comm.h"

namespace hvd::backend::gloo {
namespace {

using plugin::Text;

// hvd::Code
constexpr int32_t kOk = 0;
constexpr int32_t kPending = 1;
constexpr int32_t kIo = -63;

// hvd.h: halves round once, at the end of a reduction; Gloo reduces step by step. Gloo has no type
// for what comes after bool.
constexpr int32_t kFloat16 = 6;
constexpr int32_t kBool = 9;

int32_t fail(Text error, const std::string& why) {
  std::snprintf(error.data, error.size, "%s", why.c_str());
  return kIo;
}

int32_t load(const plugin::Settings*, Text text) {
  std::snprintf(text.data, text.size, "Gloo %d.%d.%d", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
                GLOO_VERSION_PATCH);
  return kOk;
}

int32_t open(const plugin::Settings* settings, const plugin::Group* group,
             const plugin::Services* services, void** out, Text error) {
  auto comm = std::make_unique<Comm>(*group, *services);
  if (const std::string why = comm->open(*settings); !why.empty()) return fail(error, why);
  *out = comm.release();
  return kOk;
}

void close(void* comm) { delete static_cast<Comm*>(comm); }
void abort(void* comm) { static_cast<Comm*>(comm)->abort(); }
int32_t reduces(const void*, int32_t dtype, int32_t) {
  return dtype <= kBool && dtype != kFloat16 ? 1 : 0;
}

int32_t start(void* comm, const plugin::Request* request, Text) {
  static_cast<Comm*>(comm)->start(*request);
  return kOk;
}

int32_t poll(void* comm, Text error) {
  std::string why;
  const int32_t state = static_cast<Comm*>(comm)->poll(&why);
  if (state < 0) return fail(error, why);
  return state == 0 ? kOk : kPending;
}

constexpr plugin::Table kTable = {
    .struct_size = sizeof(plugin::Table),
    .abi = plugin::kAbi,
    .name = "gloo",
    .must_poll = 0,
    .reserved = 0,
    .max_bytes = std::numeric_limits<size_t>::max(),
    .load = load,
    .open = open,
    .close = close,
    .abort = abort,
    .reduces = reduces,
    .start = start,
    .poll = poll,
    .launch = nullptr,
    .launch_broadcast = nullptr,
    .thread_level = nullptr,
    .takes_device_memory = nullptr,
};

}  // namespace
}  // namespace hvd::backend::gloo

extern "C" __attribute__((visibility("default"))) const hvd::backend::plugin::Table*
hvd_backend_v1() {
  return &hvd::backend::gloo::kTable;
}
