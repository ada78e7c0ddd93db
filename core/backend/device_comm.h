// SPDX-License-Identifier: Apache-2.0
// What the engine needs of a library that moves tensors from device to device, without the host
// seeing them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "backend/backend.h"
#include "base/bytes.h"
#include "device/device.h"

namespace hvd::backend {

// Runs works whose items are memory of its device, or memory of the host that devices can read. For
// poll() a work is done when it has been queued; on the device it runs after all that its stream
// was given before.
class DeviceComm : public Comm {
 public:
  // "NCCL 2.27.3 (libnccl.so.2)", and what users should know of how it is used.
  virtual std::string name() const = 0;
  virtual device::Device& device() const = 0;
  // Works that are started from now on are queued on the next of its streams.
  virtual void next_stream() = 0;
  virtual device::StreamHandle stream() const = 0;
  // Whether a work's failure is that of this rank's device; else nobody knows yet whose.
  virtual bool fails_by_device() const { return true; }
  // The error of works that are queued, or ok.
  virtual Status health() = 0;
  // Whether it can split a comm for some of its members off itself; the same on all.
  virtual bool splits() const { return false; }
  // Begins to split a comm off, where nothing runs, with all members in the same order; `member`:
  // whether this member is to be in the new comm. poll() and result() are as for a work. Then
  // take_split() is for the factory's open(), and is nullptr if this member is not in the new comm.
  virtual Status start_split(bool /*member*/) {
    return Status(Code::kUnsupported, name() + " does not split");
  }
  virtual std::unique_ptr<DeviceComm> take_split() { return nullptr; }
  // Begins the end that abort() or the destructor then waits for: at once, or `in_order`, when all
  // queued works have ended. The end of a comm may have to wait for another comm's works, so comms
  // that end together all begin before any is waited for. After this call the comm can only be
  // ended.
  virtual void begin_end(bool /*in_order*/) noexcept {}
  // Whether the destructor has nothing to wait for.
  virtual bool ended() const { return true; }
};

// Opens them for the members of one process set. Used by the engine's driver only.
class DeviceCommFactory {
 public:
  virtual ~DeviceCommFactory() = default;
  static constexpr size_t kCapabilityBytes = 512;
  // This member, counted from 0, with its device and the set's comm for memory of the host. Device
  // and comm live longer than the comm that is opened.
  struct Place {
    device::Device& device;
    Comm& host;
    int member;
    // connects the members already, and is used up by open() if all have one
    DeviceComm* split = nullptr;
  };
  using Describe = std::function<std::string(int member)>;
  // The kCapabilityBytes that this member tells the others before they connect, an error included.
  // The first byte is the library's.
  virtual Bytes capabilities(const Place& place) = 0;
  // Begins to connect; poll() says when that has ended, and result() how. `capabilities` are those
  // of all members in their order, and `describe` words a member. kUnsupported, the same on all
  // members, if they can not.
  virtual Result<std::unique_ptr<DeviceComm>> open(const Place& place,
                                                   std::span<const std::byte> capabilities,
                                                   const Describe& describe) = 0;

 protected:
  static constexpr unsigned char kNcclCapabilities = 1, kMpiCapabilities = 2;
  // kUnsupported if members have chosen different libraries.
  static Status same_library(std::span<const std::byte> capabilities, const Describe& describe) {
    for (size_t at = kCapabilityBytes; at < capabilities.size(); at += kCapabilityBytes) {
      if (capabilities[at] == capabilities[0]) continue;
      return Status(Code::kUnsupported, describe(0) + " and " +
                                            describe(static_cast<int>(at / kCapabilityBytes)) +
                                            " differ in gpu_operations, of which one is mpi");
    }
    return {};
  }
};

}  // namespace hvd::backend
