// SPDX-License-Identifier: Apache-2.0
#include "fake_nccl_step.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "../device/fake_cuda_memory.h"

namespace fake_nccl {

namespace {

constexpr const char* kKinds[] = {"ncclAllReduce", "ncclReduce",    "ncclReduceScatter",
                                  "ncclBroadcast", "ncclAllGather", "ncclSend",
                                  "ncclRecv"};
constexpr const char* kTypes[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                  "uint64", "float16", "float32", "float64", "bfloat16"};
constexpr const char* kOps[] = {"sum", "product", "max", "min"};
constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr int kGarbage = 0xCD;

using Values = std::vector<double>;  // exact for the small integers of tests
using Bytes = std::vector<std::byte>;

bool moves_bytes(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kAllGather || kind == Kind::kSend ||
         kind == Kind::kReceive;
}

// Halves of `mantissa` bits; no infinities, no denormals.
double decode_half(uint16_t bits, int mantissa) {
  const int bias = mantissa == 10 ? 15 : 127;
  const int exponent = (bits & 0x7fff) >> mantissa;
  const int fraction = bits & ((1 << mantissa) - 1);
  const double size =
      exponent == 0 ? 0.0 : std::ldexp(1.0 + std::ldexp(fraction, -mantissa), exponent - bias);
  return (bits & 0x8000) != 0 ? -size : size;
}

uint16_t encode_half(double value, int mantissa) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent) * 2 - 1;  // in [0, 1)
  const int bias = mantissa == 10 ? 15 : 127;
  const int bits = ((exponent - 1 + bias) << mantissa) +
                   static_cast<int>(std::nearbyint(std::ldexp(fraction, mantissa)));
  return static_cast<uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

template <class T>
double read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}
template <class T>
void write_as(std::byte* to, double number) {
  const T value = static_cast<T>(number);
  std::memcpy(to, &value, sizeof value);
}

double read_one(const std::byte* from, int dtype) {
  switch (dtype) {
    case 0: return read_as<int8_t>(from);
    case 1: return read_as<uint8_t>(from);
    case 2: return read_as<int32_t>(from);
    case 3: return read_as<uint32_t>(from);
    case 4: return read_as<int64_t>(from);
    case 5: return read_as<uint64_t>(from);
    case 6: return decode_half(static_cast<uint16_t>(read_as<uint16_t>(from)), 10);
    case 7: return read_as<float>(from);
    case 8: return read_as<double>(from);
    default: return decode_half(static_cast<uint16_t>(read_as<uint16_t>(from)), 7);
  }
}

void write_one(std::byte* to, int dtype, double value) {
  switch (dtype) {
    case 0: return write_as<int8_t>(to, value);
    case 1: return write_as<uint8_t>(to, value);
    case 2: return write_as<int32_t>(to, value);
    case 3: return write_as<uint32_t>(to, value);
    case 4: return write_as<int64_t>(to, value);
    case 5: return write_as<uint64_t>(to, value);
    case 6: return write_as<uint16_t>(to, encode_half(value, 10));
    case 7: return write_as<float>(to, value);
    case 8: return write_as<double>(to, value);
    default: return write_as<uint16_t>(to, encode_half(value, 7));
  }
}

double combine(double a, double b, int op) {
  switch (op) {
    case 0: return a + b;
    case 1: return a * b;
    case 2: return std::max(a, b);
    default: return std::min(a, b);
  }
}

std::string rank_text(size_t rank) { return "rank " + std::to_string(rank); }

// The inputs of one call by rank, taken before anything is written.
struct Inputs {
  std::vector<Bytes> of;
};

// Elements from..from+count of the ranks' inputs, reduced.
Bytes reduced(const Inputs& inputs, const std::vector<const Call*>& calls, size_t from,
              size_t count) {
  const int dtype = calls[0]->dtype;
  const size_t size = size_of(dtype);
  Bytes out(count * size);
  for (size_t i = 0; i < count; ++i) {
    double value = 0;
    for (size_t r = 0; r < calls.size(); ++r) {
      const double one =
          read_one(inputs.of[r].data() + (from + i) * size, dtype) * calls[r]->factor;
      value = r == 0 ? one : combine(value, one, calls[0]->op);
    }
    write_one(out.data() + i * size, dtype, value);
  }
  return out;
}

void put(const Call& call, const Bytes& bytes) {
  if (!bytes.empty()) std::memcpy(resolve(call.out, bytes.size()), bytes.data(), bytes.size());
}

// One collective that all ranks have called.
void run_collective(const std::vector<const Call*>& calls, const Inputs& inputs) {
  const Call& first = *calls[0];
  for (size_t r = 0; r < calls.size(); ++r) {
    const Call& call = *calls[r];
    switch (first.kind) {
      case Kind::kAllReduce: put(call, reduced(inputs, calls, 0, first.count)); break;
      case Kind::kReduce:
        if (static_cast<int>(r) == first.peer) put(call, reduced(inputs, calls, 0, first.count));
        break;
      case Kind::kReduceScatter:
        put(call, reduced(inputs, calls, r * first.count, first.count));
        break;
      case Kind::kBroadcast: put(call, inputs.of[static_cast<size_t>(first.peer)]); break;
      default: {
        Bytes all;
        for (const Bytes& one : inputs.of) all.insert(all.end(), one.begin(), one.end());
        put(call, all);
      }
    }
  }
}

bool between_two(const Call& call) {
  return call.kind == Kind::kSend || call.kind == Kind::kReceive;
}

bool alike(const Call& a, const Call& b) {
  return a.kind == b.kind && a.count == b.count && a.dtype == b.dtype && a.op == b.op &&
         a.factor == b.factor && a.peer == b.peer;
}

std::string check_buffers(const std::vector<std::vector<Call>>& calls) {
  const auto size = static_cast<int>(calls.size());
  for (size_t r = 0; r < calls.size(); ++r) {
    for (const Call& call : calls[r]) {
      const size_t in = call.reads(static_cast<int>(r), size) * size_of(call.dtype);
      const size_t out = call.writes(static_cast<int>(r), size) * size_of(call.dtype);
      if (in > 0 && resolve(call.in, in) == nullptr)
        return call.text() + ": the input of " + rank_text(r) + " is no memory";
      if (out > 0 && resolve(call.out, out) == nullptr)
        return call.text() + ": the output of " + rank_text(r) + " is no memory";
    }
  }
  return "";
}

Bytes input_of(const Call& call, size_t rank, size_t size) {
  const size_t bytes =
      call.reads(static_cast<int>(rank), static_cast<int>(size)) * size_of(call.dtype);
  if (bytes == 0) return {};
  const std::byte* from = resolve(call.in, bytes);
  return Bytes(from, from + bytes);
}

using Lists = std::vector<std::vector<const Call*>>;  // per rank

std::string run_collectives(const Lists& lists) {
  for (size_t r = 1; r < lists.size(); ++r) {
    if (lists[r].size() != lists[0].size())
      return "ranks have queued different numbers of collectives";
    for (size_t i = 0; i < lists[r].size(); ++i) {
      if (!alike(*lists[0][i], *lists[r][i])) {
        return "rank 0 has queued " + lists[0][i]->text() + ", " + rank_text(r) + " " +
               lists[r][i]->text();
      }
    }
  }
  for (size_t i = 0; i < lists[0].size(); ++i) {
    std::vector<const Call*> calls;
    Inputs inputs;
    for (size_t r = 0; r < lists.size(); ++r) {
      calls.push_back(lists[r][i]);
      inputs.of.push_back(input_of(*lists[r][i], r, lists.size()));
    }
    run_collective(calls, inputs);
  }
  return "";
}

// Each send with the receive of its place among those between the two.
std::string run_pairs(const Lists& lists) {
  std::vector<std::pair<const Call*, Bytes>> moved;
  for (size_t from = 0; from < lists.size(); ++from) {
    for (size_t to = 0; to < lists.size(); ++to) {
      const auto between = [](const std::vector<const Call*>& list, Kind kind, size_t peer) {
        std::vector<const Call*> found;
        for (const Call* call : list) {
          if (call->kind == kind && call->peer == static_cast<int>(peer)) found.push_back(call);
        }
        return found;
      };
      const auto sends = between(lists[from], Kind::kSend, to),
                 receives = between(lists[to], Kind::kReceive, from);
      if (sends.size() != receives.size())
        return rank_text(from) + " sends to " + rank_text(to) + " what it does not receive";
      for (size_t i = 0; i < sends.size(); ++i) {
        Bytes bytes = input_of(*sends[i], from, lists.size());
        if (bytes.size() != receives[i]->count * size_of(receives[i]->dtype)) {
          return rank_text(from) + " sends " + sends[i]->text() + ", " + rank_text(to) +
                 " waits for " + receives[i]->text();
        }
        moved.emplace_back(receives[i], std::move(bytes));
      }
    }
  }
  for (const auto& [call, bytes] : moved) put(*call, bytes);
  return "";
}

}  // namespace

std::string Call::text() const {
  std::string text = std::string(kKinds[static_cast<int>(kind)]) + " " + kTypes[dtype] + " " +
                     std::to_string(count);
  if (!moves_bytes(kind))
    text += std::string(" ") + kOps[op] + (factor == 1.0 ? "" : " x " + std::to_string(factor));
  return peer < 0 ? text : text + " " + rank_text(static_cast<size_t>(peer));
}

size_t Call::reads(int rank, int size) const {
  if (kind == Kind::kReceive || (kind == Kind::kBroadcast && rank != peer)) return 0;
  return kind == Kind::kReduceScatter ? count * static_cast<size_t>(size) : count;
}

size_t Call::writes(int rank, int size) const {
  if (kind == Kind::kSend || (kind == Kind::kReduce && rank != peer)) return 0;
  return kind == Kind::kAllGather ? count * static_cast<size_t>(size) : count;
}

size_t size_of(int dtype) { return kSizes[dtype]; }

double scalar(const void* at, int dtype) {
  return read_one(static_cast<const std::byte*>(at), dtype);
}

std::byte* resolve(const void* memory, size_t bytes) {
  if (std::byte* there = fake_cuda::find_memory(memory, bytes)) return there;
  return fake_cuda::is_locked(memory, bytes) ? static_cast<std::byte*>(const_cast<void*>(memory))
                                             : nullptr;
}

std::string run(const std::vector<std::vector<Call>>& calls) {
  if (std::string wrong = check_buffers(calls); !wrong.empty()) return wrong;
  Lists collectives(calls.size()), pairs(calls.size());
  for (size_t r = 0; r < calls.size(); ++r) {
    for (const Call& call : calls[r]) (between_two(call) ? pairs : collectives)[r].push_back(&call);
  }
  const std::string wrong = run_collectives(collectives);
  return wrong.empty() ? run_pairs(pairs) : wrong;
}

void spoil(const std::vector<Call>& calls, int rank, int size) {
  for (const Call& call : calls) {
    const size_t bytes = call.writes(rank, size) * size_of(call.dtype);
    std::byte* out = bytes == 0 ? nullptr : resolve(call.out, bytes);
    if (out != nullptr) std::memset(out, kGarbage, bytes);
  }
}

}  // namespace fake_nccl
