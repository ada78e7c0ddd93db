// SPDX-License-Identifier: Apache-2.0
// An ordered byte pipe to one rank on another host. Nothing here blocks.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace hvd::transport {

// Used by whoever drives the engine, one thread at a time. After an error both calls return 0 for
// ever and failed() is true; the fabric reports the reason as a lost peer.
class Stream {
 public:
  virtual ~Stream() = default;
  // Takes as many bytes as fit now, 0 if none.
  virtual size_t send_some(std::span<const iovec> pieces) = 0;
  virtual size_t receive_some(std::span<const iovec> pieces) = 0;
  virtual bool failed() const = 0;
};

}  // namespace hvd::transport
