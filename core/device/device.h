// SPDX-License-Identifier: Apache-2.0
// One CUDA device as the engine uses it: moments of streams, host memory that the device copies
// from and to, and two streams of our own for those copies. Only free_results() waits for the
// device; so may the driver itself, where memory is had anew. Thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "device/driver.h"

namespace hvd::device {

// Called by the device when copies have arrived; on a thread of the driver, at any time until it is
// closed.
class Bell {
 public:
  explicit Bell(std::function<void()> ring) : ring_(std::move(ring)) {}
  void ring() const;
  void close();

 private:
  mutable Mutex mutex_;
  std::function<void()> ring_ HVD_GUARDED_BY(mutex_);
};

class Device;

// A point in what has been queued on a stream; an event of the driver, which goes back to its
// device's pool.
class Moment {
 public:
  Moment() = default;
  Moment(Device* of, EventHandle event) : of_(of), event_(event) {}
  Moment(Moment&& other) noexcept : of_(std::exchange(other.of_, nullptr)), event_(other.event_) {}
  Moment& operator=(Moment&& other) noexcept;
  ~Moment();
  EventHandle event() const { return event_; }
  explicit operator bool() const { return of_ != nullptr; }

 private:
  Device* of_ = nullptr;
  EventHandle event_ = nullptr;
};

// The driver's identifier of a device; devices of two machines have different ones.
using DeviceUuid = std::array<unsigned char, 16>;

class Device {
 public:
  enum class Way { kToHost, kToDevice };
  class Scope;

  static Result<std::unique_ptr<Device>> open(std::shared_ptr<const Driver> driver, int id,
                                              std::shared_ptr<const Bell> bell);
  // Waits at most a second for copies under way; memory that copies still use then is left to the
  // driver.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int id() const { return id_; }
  const Driver& driver() const { return *driver_; }
  // then it belongs to the parent of this process
  bool forked() const { return fork_guard_.forked(); }
  Result<DeviceUuid> uuid() const;
  // kInvalidArgument if `memory` is not of this device. The text is to be read after a tensor's
  // role.
  Status check_memory(const void* memory) const;
  // kInvalidArgument if the stream is capturing a graph.
  Status check_stream(StreamHandle stream) const;

  // Marks the end of the work that is queued on `stream` so far. Null is the default stream.
  Result<Moment> mark(StreamHandle stream);
  Result<bool> reached(const Moment& moment) const;
  // Work that is queued on `stream` from now on begins after the moment.
  Status wait(StreamHandle stream, const Moment& moment) const;

  // Another stream of ours, of high priority like those for copies.
  Result<StreamHandle> make_stream() const;
  // Without waiting for what is queued there.
  void destroy_stream(StreamHandle stream) const;
  // Whether all that is queued there is done; also where the device is broken.
  bool idle(StreamHandle stream) const;

  // Queues a copy on `stream`, between memory of devices or page-locked memory of the host.
  Status copy(StreamHandle stream, void* to, const void* from, size_t bytes) const;
  // Queues a copy on our stream of that way.
  Status copy(Way way, void* to, const void* from, size_t bytes);
  // Work that our stream of that way is given from now on begins after the moment.
  Status order(Way way, const Moment& after) const { return wait(stream_of(way), after); }
  // Marks the end of the work on our stream of that way; with `rings`, the bell rings when it is
  // reached.
  Result<Moment> mark(Way way, bool rings = false);

  struct HostMemory {
    void* memory = nullptr;
    size_t bytes = 0;
  };
  // Host memory, of that size or more, that copies need no detour for; kept for the next one of
  // about its size.
  Result<HostMemory> take_host_memory(size_t bytes);
  // Given back; in use until the moment.
  void give_host_memory(std::vector<HostMemory> memory, Moment until);

  Result<void*> allocate(size_t bytes);
  // Notes memory of allocate() that is not needed any more.
  void free(void* memory);
  // Frees what has been noted. Waits for the device, so never on a thread that other ranks wait
  // for.
  void free_results();

 private:
  friend class Moment;
  struct Lent {
    std::vector<HostMemory> memory;
    Moment until;
  };

  Device(std::shared_ptr<const Driver> driver, int id, std::shared_ptr<const Bell> bell);
  Status start();
  bool idle() const;
  StreamHandle stream_of(Way way) const { return streams_[static_cast<size_t>(way)]; }
  void give_event(EventHandle event);
  void collect() HVD_REQUIRES(mutex_);
  Result<HostMemory> find_unused(size_t size) HVD_REQUIRES(mutex_);
  Result<HostMemory> allocate_host(size_t size) HVD_REQUIRES(mutex_);
  void free_unused(size_t but_for) HVD_REQUIRES(mutex_);  // bytes
  const DriverCalls& calls() const { return driver_->calls(); }

  const std::shared_ptr<const Driver> driver_;
  const int id_;
  const std::shared_ptr<const Bell> bell_;
  const ForkGuard fork_guard_;
  ContextHandle context_ = nullptr;
  StreamHandle streams_[2] = {};  // per way

  Mutex event_mutex_;
  std::vector<EventHandle> unused_events_ HVD_GUARDED_BY(event_mutex_);
  // taken before event_mutex_
  Mutex mutex_;
  std::map<size_t, std::vector<void*>> unused_memory_ HVD_GUARDED_BY(mutex_);  // by bytes
  size_t unused_bytes_ HVD_GUARDED_BY(mutex_) = 0;
  size_t used_bytes_ HVD_GUARDED_BY(mutex_) = 0;  // host memory that was taken
  size_t most_used_bytes_ HVD_GUARDED_BY(mutex_) = 0;
  std::vector<void*> freed_results_ HVD_GUARDED_BY(mutex_);
  std::deque<Lent> lent_ HVD_GUARDED_BY(mutex_);  // given back, in use by copies
};

// The device's context as the calling thread's, as long as this lives. Another thread may be
// capturing a graph meanwhile: in the usual mode that forbids calls such as cuEventQuery to every
// thread, and one would spoil the graph.
class Device::Scope {
 public:
  explicit Scope(const Device& device);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Device& device_;
  int capture_mode_ = kCaptureRelaxed;  // the thread's own, once exchanged
  const bool pushed_;                   // else the calls inside say why not
};

}  // namespace hvd::device
