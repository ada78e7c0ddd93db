// SPDX-License-Identifier: Apache-2.0
// The plug-in's table.
#include "backend/plugin/plugin.h"

#include <climits>
#include <cstdio>
#include <memory>

#include "backend/mpi/comm.h"
#include "backend/mpi/cuda.h"

namespace hvd::backend::mpi {
namespace {

using plugin::Text;

// hvd::Code
constexpr int32_t kOk = 0;
constexpr int32_t kPending = 1;
constexpr int32_t kUnsupported = -5;
constexpr int32_t kIo = -63;
constexpr int32_t kWarn = 1;

void write(Text text, const std::string& line) {
  if (text.size > 0) std::snprintf(text.data, text.size, "%s", line.c_str());
}

int32_t fail(Text error, int32_t code, const std::string& why) {
  write(error, why);
  return code;
}

int32_t load(const plugin::Settings*, Text text) {
  std::string problem;
  const Api* api = load_api(&problem);
  if (api == nullptr) return fail(text, kUnsupported, problem);
  write(text, api->version);
  return kOk;
}

int32_t open(const plugin::Settings* settings, const plugin::Group* group,
             const plugin::Services* services, void** out, Text error) {
  Process& process = Process::get();
  if (std::string why = process.start(*settings, group->size > 1); !why.empty())
    return fail(error, kUnsupported, why);
  if (const std::string warning = process.thread_warning(); !warning.empty()) {
    services->log(services->self, kWarn, warning.c_str());
  }
  auto comm = std::make_unique<Comm>(process, *group, *services);
  if (std::string why = comm->open(*settings); !why.empty()) return fail(error, kIo, why);
  *out = comm.release();
  return kOk;
}

void close(void* comm) { delete static_cast<Comm*>(comm); }
void abort(void* comm) { static_cast<Comm*>(comm)->abort(); }
int32_t reduces(const void*, int32_t dtype, int32_t op) { return Comm::reduces(dtype, op) ? 1 : 0; }

int32_t start(void* comm, const plugin::Request* request, Text error) {
  const std::string why = static_cast<Comm*>(comm)->start(*request);
  return why.empty() ? kOk : fail(error, kIo, why);
}

int32_t poll(void* comm, Text error) {
  std::string why;
  const int32_t state = static_cast<Comm*>(comm)->poll(&why);
  if (state < 0) return fail(error, kIo, why);
  return state == 0 ? kOk : kPending;
}

Handle launched(const Api& api, const plugin::Settings& settings) {
  return settings.communicator != 0 ? reinterpret_cast<Handle>(settings.communicator)
                                    : api.comm_world;
}

int32_t launch(const plugin::Settings* settings, plugin::Launch* out, Text error) {
  Process& process = Process::get();
  if (std::string why = process.start(*settings, false); !why.empty())
    return fail(error, kUnsupported, why);
  const Api& api = process.api();
  int code = kSuccess;
  const char* call = "";
  process.run([&] {
    const auto done = [&](const char* name, int result) {
      call = name;
      code = result;
      return result == kSuccess;
    };
    Handle host = nullptr;
    const Handle all = launched(api, *settings);
    if (!done("MPI_Comm_rank", api.Comm_rank(all, &out->rank))) return;
    if (!done("MPI_Comm_size", api.Comm_size(all, &out->size))) return;
    if (!done("MPI_Comm_split_type",
              api.Comm_split_type(all, kTypeShared, 0, api.info_null, &host)))
      return;
    if (!done("MPI_Comm_rank", api.Comm_rank(host, &out->local_rank))) return;
    if (!done("MPI_Comm_size", api.Comm_size(host, &out->local_size))) return;
    done("MPI_Comm_free", api.Comm_free(&host));
  });
  if (code != kSuccess) return fail(error, kIo, std::string(call) + ": " + error_text(api, code));
  out->thread_level = process.level();
  return kOk;
}

int32_t launch_broadcast(const plugin::Settings* settings, void* bytes, size_t size, int32_t root,
                         Text error) {
  Process& process = Process::get();
  if (std::string why = process.start(*settings, false); !why.empty())
    return fail(error, kUnsupported, why);
  if (size > INT_MAX)
    return fail(error, kUnsupported,
                std::to_string(size) + " bytes are too many to broadcast at the start");
  const Api& api = process.api();
  int code = kSuccess;
  process.run([&] {
    code = api.Bcast(bytes, static_cast<int>(size), api.byte, root, launched(api, *settings));
  });
  return code == kSuccess ? kOk : fail(error, kIo, "MPI_Bcast: " + error_text(api, code));
}

// Also of an MPI that others have started.
int32_t thread_level() {
  std::string problem;
  const Api* api = load_api(&problem);
  int initialized = 0;
  int finalized = 0;
  int level = -1;
  if (api == nullptr || api->Initialized(&initialized) != kSuccess || initialized == 0) return -1;
  if (api->Finalized(&finalized) != kSuccess || finalized != 0) return -1;
  return api->Query_thread(&level) == kSuccess ? level : -1;
}

int32_t takes_device_memory(const plugin::Settings*, Text why) {
  const Process& process = Process::get();
  if (process.one_thread())
    return fail(why, kUnsupported, "MPI is called from a thread of its own, which has no device");
  const std::string problem = why_not_cuda_aware(process.api());
  return problem.empty() ? kOk : fail(why, kUnsupported, problem);
}

constexpr plugin::Table kTable = {
    .struct_size = sizeof(plugin::Table),
    .abi = plugin::kAbi,
    .name = "mpi",
    .must_poll = 1,
    .reserved = 0,
    .max_bytes = INT_MAX,
    .load = load,
    .open = open,
    .close = close,
    .abort = abort,
    .reduces = reduces,
    .start = start,
    .poll = poll,
    .launch = launch,
    .launch_broadcast = launch_broadcast,
    .thread_level = thread_level,
    .takes_device_memory = takes_device_memory,
};

}  // namespace
}  // namespace hvd::backend::mpi

extern "C" __attribute__((visibility("default"))) const hvd::backend::plugin::Table*
hvd_backend_v1() {
  return &hvd::backend::mpi::kTable;
}
