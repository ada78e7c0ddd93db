// SPDX-License-Identifier: Apache-2.0
// The data connection of a lane to one rank on another host.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/events.h"
#include "transport/stream.h"
#include "transport/wire.h"

namespace hvd::transport {

// Ranks whose data connection broke while in use, and how. Shared by a mesh and its streams; thread
// safe, because a lane that is being opened is not yet the driver's.
class BrokenStreams {
 public:
  struct Break {
    int rank;
    std::string cause;
  };
  void add(int rank, std::string cause) {
    MutexLock lock(mutex_);
    breaks_.push_back({rank, std::move(cause)});
  }
  std::vector<Break> take() {
    MutexLock lock(mutex_);
    return std::exchange(breaks_, {});
  }

 private:
  Mutex mutex_;
  std::vector<Break> breaks_ HVD_GUARDED_BY(mutex_);
};

class TcpStream final : public Stream {
 public:
  // `events` outlives the stream.
  static Result<std::unique_ptr<Stream>> start(Events& events, std::unique_ptr<Wire> wire, int rank,
                                               std::shared_ptr<BrokenStreams> broken);
  ~TcpStream() override;
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  size_t send_some(std::span<const iovec> pieces) override;
  size_t receive_some(std::span<const iovec> pieces) override;
  bool failed() const override { return failed_; }

 private:
  TcpStream(Events& events, std::unique_ptr<Wire> wire, int rank,
            std::shared_ptr<BrokenStreams> broken)
      : events_(events), wire_(std::move(wire)), rank_(rank), broken_(std::move(broken)) {}
  size_t moved(const Result<size_t>& result);

  Events& events_;
  const std::unique_ptr<Wire> wire_;
  const int rank_;
  const std::shared_ptr<BrokenStreams> broken_;
  bool failed_ = false;
};

}  // namespace hvd::transport
