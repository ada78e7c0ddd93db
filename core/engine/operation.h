// SPDX-License-Identifier: Apache-2.0
// One submitted operation from the call to the last reference: the request, its result, and the
// threads that wait for the result. hvd_handle is a pointer to an operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/device_comm.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/quoted.h"
#include "base/status.h"
#include "device/staging.h"
#include "engine/flight_recorder.h"
#include "negotiation/signature.h"
#include "negotiation/wire.h"

namespace hvd::engine {

class Engine;
struct ProcessSet;

struct OpTensor {
  const void* in = nullptr;
  void* out = nullptr;   // nullptr until the library has allocated it
  size_t out_bytes = 0;  // size of the caller's output; 0 if the library allocates
  bool caller_output = false;
  DType dtype = DType::kUint8;
  std::vector<int64_t> dims;  // dimensions of the input
  std::vector<int64_t> out_dims;

  size_t count() const {
    size_t n = 1;
    for (const int64_t dim : dims) n *= static_cast<size_t>(dim);
    return n;
  }
  int64_t rows() const { return dims.empty() ? 1 : dims[0]; }
  size_t row_count() const {  // elements per row of dimension 0
    size_t n = 1;
    for (size_t i = 1; i < dims.size(); ++i) n *= static_cast<size_t>(dims[i]);
    return n;
  }
  size_t row_bytes() const { return row_count() * dtype_size(dtype); }
};

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using OwnedBuffer = std::unique_ptr<void, FreeDeleter>;

class Operation {
 public:
  using Callback = void (*)(void* user_data, Operation* operation, int32_t status);

  // The request. Written before submission, constant afterwards.
  OpKind kind = OpKind::kBarrier;
  std::string key;  // see key_mark()
  bool unnamed = false;
  ReduceOp op = ReduceOp::kSum;
  int32_t root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  int32_t priority = 0;
  Time submitted{};
  Time deadline = kNever;
  std::vector<OpTensor> tensors;
  // allgather, gather: rows per tensor; alltoall: rows per destination
  std::vector<int64_t> variable;
  std::vector<int32_t> numbers;  // process set operations
  Bytes signature;
  Fingerprint print;
  Bytes gathered_payload;  // eager grouped operations: all inputs back to back
  std::span<const std::byte> payload;
  bool eager = false;
  std::unique_ptr<device::Staging> staging;  // staging of tensors on a device, else null
  std::shared_ptr<Engine> engine;            // kept alive by its operations
  std::shared_ptr<ProcessSet> set;
  // for the creation of a set that has gone well so far, else null
  std::shared_ptr<ProcessSet> confirms;

  // Results. Written by the driver before done(), constant afterwards.
  std::vector<OwnedBuffer> owned;
  std::vector<int64_t> received_rows;
  int32_t last_joined = -1;
  std::unique_ptr<backend::DeviceComm> split;  // for the set that is created, see DevicePlane

  // Driver only.
  uint32_t label = 0;  // see FlightRecorder
  negotiation::Agreement agreement;
  uint64_t group = 0;   // number of its GroupRecord
  uint64_t agreed = 0;  // as in its GroupRecord; 0: ended with a message
  uint64_t begun = 0;
  std::list<Operation*>::iterator place;  // among the waiting operations of its set
  Time next_report = kNever;              // stall inspector
  // after the deadline: since when the coordinator is asked to end the operation
  Time withdrawn = kNever;
  Time asked = kNever;                 // since when the coordinator is asked who is missing
  bool asked_last = false;             // before the end that a limit or deadline will make
  bool report_due = false;             // the answer is to be reported
  bool unanswered = false;             // the coordinator has not answered
  std::string missing;                 // the last answer
  std::vector<int64_t> missing_ranks;  // likewise

  // Guarded by the mutex of SubmitQueue: see InFlight.
  Operation* next_in_flight = nullptr;
  Operation** link_in_flight = nullptr;
  // Guarded by the mutexes of Completions: the callback that is to be called, and the next
  // operation in its queues.
  Callback called = nullptr;
  void* called_data = nullptr;
  Operation* next_call = nullptr;
  Operation* next_ended = nullptr;

  // Set by the first caller that waits, read by the driver.
  std::atomic<bool> awaited{false};

  // Memory of the library for the result of a tensor, which lasts as long as the operation.
  Status own_output(OpTensor& tensor, size_t bytes);

  bool done() const { return state_.load(std::memory_order_acquire) == kDone; }
  const Status& result() const { return result_; }  // meaningful once done()

  std::string_view name() const { return negotiation::name_of(key); }
  void set_name(std::string_view name) {
    set_key(negotiation::key_mark(kind, tensors.size() > 1), name);
  }
  void set_key(char mark, std::string_view name) {
    key.assign(1, mark);
    key.append(name);
  }

  // The text "allreduce "grad/w3"": for the driver, and once done() for everybody.
  std::string subject() const { return subject_with(key.empty() ? "unnamed" : name()); }
  // The text for callers while the operation is in flight: an unnamed operation that had to wait
  // for its place gets its name from the driver.
  std::string subject_so_far() const {
    return unnamed && !done() ? subject_with("unnamed") : subject();
  }

  // Ok if there are results: once the operation has succeeded.
  Status has_results() const;

  // `why`, worded as the end of this operation.
  Status worded(const Status& why) const {
    Status status(why.code(), subject() + ": " + why.message());
    return status.with_rank(why.rank()).with_errno(why.sys_errno());
  }

  // Ends the operation and wakes the threads that sleep for it. Called exactly once.
  void complete(Status status);
  // Sleeps until done or the deadline.
  void sleep_until(Time deadline);

  void add_reference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference();
  // Drops the reference of the caller, and what it alone may free.
  void drop_reference_of_caller();
  // Makes the operation as if new, except that vectors keep their memory. For the engine's pool.
  void reset();

  enum class Registered { kNow, kAfterEnd, kRefused };
  // kNow: completion will find the callback. kAfterEnd: the operation has ended, the caller must
  // arrange the call itself. kRefused: there has been a callback before.
  Registered set_callback(Callback callback, void* user_data);
  // Called once, after complete(); nullptr if no callback is registered.
  Callback take_callback(void** user_data);

 private:
  std::string subject_with(std::string_view word) const {
    return std::string(op_kind_name(kind)) + " " + in_quotes(word);
  }

  static constexpr uint32_t kPending = 0;
  static constexpr uint32_t kPendingWithSleeper = 1;
  static constexpr uint32_t kDone = 2;
  // The callback slot: free -> (being written ->) set -> used; or free -> ended -> used.
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kWriting = 1;
  static constexpr uint32_t kSet = 2;
  static constexpr uint32_t kEnded = 3;
  static constexpr uint32_t kUsed = 4;

  std::atomic<uint32_t> state_{kPending};
  std::atomic<int32_t> references_{1};
  std::atomic<uint32_t> callback_state_{kFree};
  Callback callback_ = nullptr;
  void* callback_data_ = nullptr;
  Status result_;
};

// The facts of an operation that are known from its submission on.
OperationRecord record_of(const Operation& operation);

}  // namespace hvd::engine
