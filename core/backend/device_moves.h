// SPDX-License-Identifier: Apache-2.0
// The interface of a data plane whose library reads and writes memory of CUDA devices itself.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"
#include "device/device.h"

namespace hvd::backend {

// Moves bytes between the members, one move at a time, and never while the comm that it belongs to
// runs something. The bytes that a member has for itself are not touched. The caller keeps
// everything until poll() is done, or abort() has returned.
class DeviceMoves {
 public:
  // "Open MPI v4.1.4"
  virtual std::string library() const = 0;
  // Ok, or why this rank's library can not be given memory of the device. Once it can, no other
  // device's is taken: the context is made current whenever the library is called for whatever
  // comm, since each call may carry on with a move.
  virtual Status take_memory_of(const device::Device& device) = 0;
  // `in` reaches all members: bytes_of[m] are member m's, and all members' are one after another in
  // `out`. Nothing is sent to the member `complete`, which has them; -1: to all.
  virtual Status gather(const void* in, void* out, const size_t* bytes_of, int complete) = 0;
  // Sends each member its bytes of `in` and receives each member's bytes in `out`, one member after
  // another.
  virtual Status exchange(const void* in, const size_t* send_bytes, void* out,
                          const size_t* receive_bytes) = 0;
  // Ok once done; kPending; or what failed.
  virtual Status poll() = 0;
  // Ends what is running; nothing may follow.
  virtual void abort() noexcept = 0;

 protected:
  ~DeviceMoves() = default;
};

}  // namespace hvd::backend
