// SPDX-License-Identifier: Apache-2.0
// One open group of a plug-in: the table's functions as a class, and libhvd's services for them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/device_moves.h"
#include "backend/plugin/exchange.h"
#include "backend/plugin/library.h"
#include "base/log.h"

namespace hvd::backend::plugin {

// Used by the engine's driver only, but for the wake-up, which comes from any thread.
class LibraryComm final : public DeviceMoves {
 public:
  struct Request {
    RequestKind kind = kAllreduce;
    DType dtype = DType::kUint8;
    ReduceOp op = ReduceOp::kSum;
    int root = 0;
    const void* in = nullptr;
    void* out = nullptr;
    size_t count = 0;
    const size_t* send_bytes = nullptr;
    const size_t* receive_bytes = nullptr;
    bool on_device = false;
  };
  struct Around {
    LibrarySettings settings;
    const Logger* log = nullptr;  // outlives the comm
    // Shared by all comms; see take_memory_of().
    std::shared_ptr<const device::Device*> device =
        std::make_shared<const device::Device*>(nullptr);
    std::function<void()> wake;
  };

  // Opens a group of the exchange's members; all members of the exchange call this, each with a
  // group that contains it. Collective, blocks. `id` is not that of another open group with common
  // members.
  static Result<std::unique_ptr<LibraryComm>> open(const Library& library, const Around& around,
                                                   int id, const std::vector<int>& members,
                                                   Exchange& exchange);
  ~LibraryComm();
  LibraryComm(const LibraryComm&) = delete;
  LibraryComm& operator=(const LibraryComm&) = delete;

  bool reduces(DType dtype, ReduceOp op) const;
  bool must_poll() const { return library_.table().must_poll != 0; }
  size_t max_bytes() const { return library_.table().max_bytes; }
  int size() const { return static_cast<int>(members_.size()); }
  int me() const { return me_; }

  Status start(const Request& request);
  Status poll() override;
  void abort() noexcept override;

  std::string library() const override;
  Status take_memory_of(const device::Device& device) override;
  Status gather(const void* in, void* out, const size_t* bytes_of, int complete) override;
  Status exchange(const void* in, const size_t* send_bytes, void* out,
                  const size_t* receive_bytes) override;

 private:
  LibraryComm(const Library& library, const Around& around, const std::vector<int>& members);
  static int32_t serve_exchange(void* self, const void* bytes, size_t size, void* all, Text error);

  const Library library_;
  const Around around_;
  const std::vector<int> members_;  // indices in the exchange
  int me_ = 0;                      // index in members_
  Services services_{};
  Exchange* exchange_ = nullptr;  // during open()
  void* handle_ = nullptr;
};

}  // namespace hvd::backend::plugin
