// SPDX-License-Identifier: Apache-2.0
// The control messages between the members of a process set and its coordinator (the member with
// the lowest rank). Same-machine byte order; the connection handshake refuses peers of another one.
// Decoding checks every length.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"

namespace hvd::negotiation {

enum class MessageType : uint8_t {
  kReady = 1,  // member -> coordinator: the named operations are ready here
  kPlan,       // coordinator -> members: run these now, in this order
  kResult,     // coordinator -> members: an eager operation is done, here is the result
  kFail,       // coordinator -> members: the named operation has failed everywhere
  // coordinator -> member: I no longer know this cache id, send the operation in full
  kResend,
  kQuery,     // member -> coordinator: which ranks are missing for this operation?
  kMissing,   // coordinator -> member: the named ranks are missing
  kWithdraw,  // member -> coordinator: my time for this operation is over, fail it
  kBye,       // member -> coordinator: I leave the job
  kClose,     // coordinator -> members: the set has ended, for this reason
  kAbort,     // anyone -> everyone: the job is broken, for this reason
  // anyone -> everyone: the job ends because an operation of mine has stalled for too long
  kStalled,
  // coordinator -> member: an operation waits for you; for which operation do you wait?
  kWhere,
  kElsewhere,  // member -> coordinator: the operation for which I wait
  // coordinator -> member: my payload of an eager operation that waits for you only; finish it with
  // that
  kEagerPayload,
  kRetract,    // coordinator -> member: if you have not used my payload, do not
  kRetracted,  // member -> coordinator: the payload is gone, used or not
};

bool for_coordinator(MessageType type);

// Every message begins with this head. `set` is the serial of the process set (never used twice), 0
// for the world.
struct MessageHead {
  MessageType type = MessageType::kReady;
  uint32_t set = 0;
};
inline constexpr size_t kHeadBytes = 5;

void put_head(Bytes& out, MessageHead head);
bool get_head(ByteReader& in, MessageHead* out);

// An entry is one operation in a kReady message. The coordinator knows the operation by cache id
// (id != 0), or gets it in full with name and signature.
struct ReadyEntry {
  uint32_t id = 0;
  int32_t priority = 0;
  Fingerprint print;
  std::string_view name;                 // full only; the key
  std::span<const std::byte> signature;  // full only
  // allgather, gather: rows per tensor; alltoall: rows per destination
  std::vector<int64_t> variable;
  std::span<const std::byte> payload;  // eager operations: the (unscaled) input
  bool eager = false;
  bool resent = false;     // the answer to kResend
  bool exclusive = false;  // see Submission
};

// Up to here payloads are copied into their messages; larger ones go behind them from where they
// are.
inline constexpr size_t kCopiedPayload = 8192;
// Returns the payload if the payload goes behind `message`; else returns nothing, and the payload
// has been put into `message`.
std::span<const std::byte> put_payload(Bytes& message, std::span<const std::byte> payload);
// Gives back the memory of a payload that was kept for a cached name, if that memory is large.
void drop_large(Bytes& kept);

void put_ready(Bytes& out, const ReadyEntry& entry);  // without its payload, which comes behind it
bool get_ready(ByteReader& in, ReadyEntry* out);

// How the members came to an operation: for the records, nothing is decided by it.
struct Agreement {
  uint64_t use = 0;            // the number of the operation among all of its set; 0: none
  uint32_t spread = 0;         // microseconds from the first member's announcement to the last
  uint32_t last = UINT32_MAX;  // the member that came last; UINT32_MAX: not known
};

// An entry is one operation in a kPlan or kResult message.
struct PlanEntry {
  uint32_t id = 0;                // cache id, 0 if the operation is not cached
  std::string_view name;          // empty if the members know the id
  std::vector<int64_t> variable;  // the members' variable parts, one after another
  std::vector<uint64_t> counts;   // elements per tensor; only in a group with an outline
  Agreement agreement;
};

// The outline tells a joined member how to take part in a reduction that this member has not
// submitted.
struct ReductionOutline {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
};

// How tensors on devices go, the same on all members.
enum class Path : uint8_t {
  kHost,    // through host memory
  kMeet,    // through host memory, after the members have tried to connect their devices
  kDevice,  // from device to device, if the library that has connected them can run it
};
inline constexpr uint8_t kPaths = 3;

// Entries of one group run as one data operation.
struct PlanGroup {
  Path path = Path::kHost;
  std::vector<PlanEntry> entries;
  bool has_outline = false;  // members that have joined lend zeros to the group
  // members that have joined have no part in the group, which is a barrier
  bool without_joined = false;
  ReductionOutline outline;
};

void put_plan_entry(Bytes& out, const PlanEntry& entry);
bool get_plan_entry(ByteReader& in, PlanEntry* out);
void put_group(Bytes& out, const PlanGroup& group);
bool get_group(ByteReader& in, PlanGroup* out);

void put_numbers(ByteWriter& writer, const std::vector<int64_t>& values);
bool get_numbers(ByteReader& in, std::vector<int64_t>* out);
void put_short_text(Bytes& out, std::string_view text);  // up to 65,535 bytes
std::string_view get_short_text(ByteReader& in);

// code, rank at fault, text
void put_status(Bytes& out, const Status& status);
bool get_status(ByteReader& in, Status* out);

}  // namespace hvd::negotiation
