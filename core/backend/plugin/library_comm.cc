// SPDX-License-Identifier: Apache-2.0
#include "backend/plugin/library_comm.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>

#include "kernels/reduce.h"

namespace hvd::backend::plugin {
namespace {

void reduce_pair(int32_t dtype, int32_t op, void* into, const void* a, const void* b,
                 size_t count) {
  const void* sources[] = {a, b};
  kernels::reduce({.dtype = static_cast<DType>(dtype),
                   .op = static_cast<ReduceOp>(op),
                   .dst = into,
                   .srcs = sources,
                   .nsrc = 2,
                   .count = count});
}

// The device as the calling thread's, if there is one.
class Current {
 public:
  explicit Current(const device::Device* device) {
    if (device != nullptr) scope_.emplace(*device);
  }

 private:
  std::optional<device::Device::Scope> scope_;
};

}  // namespace

LibraryComm::LibraryComm(const Library& library, const Around& around,
                         const std::vector<int>& members)
    : library_(library), around_(around), members_(members) {
  services_.struct_size = sizeof services_;
  services_.self = this;
  services_.exchange = serve_exchange;
  services_.wake = [](void* self) { static_cast<LibraryComm*>(self)->around_.wake(); };
  services_.log = [](void* self, int32_t level, const char* line) {
    const LibraryComm& comm = *static_cast<LibraryComm*>(self);
    if (comm.around_.log != nullptr)
      comm.around_.log->write(static_cast<LogLevel>(level), "backend", line);
  };
  services_.reduce = reduce_pair;
}

// The plug-in exchanges among its group only; the members of other groups exchange at the same
// time.
int32_t LibraryComm::serve_exchange(void* self, const void* bytes, size_t size, void* all,
                                    Text error) try {
  LibraryComm& comm = *static_cast<LibraryComm*>(self);
  Exchange& exchange = *comm.exchange_;
  std::vector<std::byte> everybody(size * static_cast<size_t>(exchange.size()));
  const Status status = exchange.give(bytes, size, everybody.data());
  if (!status.ok()) {
    std::snprintf(error.data, error.size, "%s", status.message().c_str());
    return static_cast<int32_t>(status.code());
  }
  auto* out = static_cast<std::byte*>(all);
  for (size_t i = 0; i < comm.members_.size(); ++i) {
    std::memcpy(out + i * size, everybody.data() + static_cast<size_t>(comm.members_[i]) * size,
                size);
  }
  return 0;
} catch (const std::exception& problem) {
  std::snprintf(error.data, error.size, "exchange of %zu bytes: %s", size, problem.what());
  return static_cast<int32_t>(Code::kOutOfMemory);
}

Result<std::unique_ptr<LibraryComm>> LibraryComm::open(const Library& library, const Around& around,
                                                       int id, const std::vector<int>& members,
                                                       Exchange& exchange) {
  std::unique_ptr<LibraryComm> comm(new LibraryComm(library, around, members));
  const auto mine = std::find(members.begin(), members.end(), exchange.me());
  comm->me_ = static_cast<int>(mine - members.begin());
  comm->exchange_ = &exchange;
  const Settings settings = around.settings.settings();
  const Group group{sizeof(Group), id, comm->size(), comm->me_};
  ErrorText error;
  const int32_t code =
      library.table().open(&settings, &group, &comm->services_, &comm->handle_, error);
  comm->exchange_ = nullptr;
  HVD_TRY(exchange.conclude(error.status(library.table().name, code)));
  return comm;
}

LibraryComm::~LibraryComm() {
  if (handle_ != nullptr) library_.table().close(handle_);
}

bool LibraryComm::reduces(DType dtype, ReduceOp op) const {
  return library_.table().reduces(handle_, static_cast<int32_t>(dtype), static_cast<int32_t>(op)) !=
         0;
}

Status LibraryComm::start(const Request& request) {
  const plugin::Request raw{.struct_size = sizeof(plugin::Request),
                            .kind = request.kind,
                            .dtype = static_cast<int32_t>(request.dtype),
                            .op = static_cast<int32_t>(request.op),
                            .root = request.root,
                            .on_device = request.on_device ? 1U : 0U,
                            .in = request.in,
                            .out = request.out,
                            .count = request.count,
                            .send_bytes = request.send_bytes,
                            .receive_bytes = request.receive_bytes};
  const Current current(*around_.device);
  ErrorText error;
  return error.status(library_.table().name, library_.table().start(handle_, &raw, error));
}

Status LibraryComm::poll() {
  const Current current(*around_.device);
  ErrorText error;
  return error.status(library_.table().name, library_.table().poll(handle_, error));
}

std::string LibraryComm::library() const {
  const Result<std::string> version = library_.version();
  return version.ok() ? version.value() : library_.table().name;
}

Status LibraryComm::take_memory_of(const device::Device& device) {
  const Table& table = library_.table();
  if (*around_.device != nullptr && *around_.device != &device) {
    return Status(Code::kUnsupported, std::string("backend ") + table.name +
                                          " is given memory of CUDA device " +
                                          std::to_string((*around_.device)->id()) +
                                          " of this process, and of no other");
  }
  if (!library_.has_device_memory()) {
    return Status(Code::kUnsupported,
                  std::string("backend ") + table.name + " is given memory of the host only");
  }
  const Settings settings = around_.settings.settings();
  const Current current(&device);
  ErrorText error;
  Status taken = error.status(table.name, table.takes_device_memory(&settings, error));
  if (taken.ok()) *around_.device = &device;
  return taken;
}

Status LibraryComm::gather(const void* in, void* out, const size_t* bytes_of, int complete) {
  return start({.kind = kAllgather,
                .root = complete,
                .in = in,
                .out = out,
                .receive_bytes = bytes_of,
                .on_device = true});
}

Status LibraryComm::exchange(const void* in, const size_t* send_bytes, void* out,
                             const size_t* receive_bytes) {
  return start({.kind = kAlltoall,
                .in = in,
                .out = out,
                .send_bytes = send_bytes,
                .receive_bytes = receive_bytes,
                .on_device = true});
}

void LibraryComm::abort() noexcept { library_.table().abort(handle_); }

}  // namespace hvd::backend::plugin
