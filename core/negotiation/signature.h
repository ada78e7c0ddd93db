// SPDX-License-Identifier: Apache-2.0
// What the members of a set must agree on before an operation runs. The canonical bytes of a
// signature are compared by fingerprint on every use; the decoded form serves to explain a
// difference.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/op_kind.h"

namespace hvd::negotiation {

// Where an operation's tensors are.
enum class Place : uint8_t { kCpu, kCuda };

// Members find each other's operations by keys: a mark, and the name. Each kind has names of its
// own, and so have operations of several tensors; operations without a name are counted together,
// whatever their kind is.
constexpr char key_mark(OpKind kind, bool several) {
  return static_cast<char>('A' + static_cast<int>(kind) + (several ? 16 : 0));
}
inline constexpr char kUnnamedMark = '*';
inline constexpr std::string_view name_of(std::string_view key) {
  return key.substr(key.empty() ? 0 : 1);
}

// A set has one join at a time, so it has one name.
inline constexpr const char* kJoinName = "hvd:join";
inline constexpr std::string_view kJoinKey = "Hhvd:join";
static_assert(kJoinKey[0] == key_mark(OpKind::kJoin, false) && name_of(kJoinKey) == kJoinName);

inline constexpr int kMaxDimensions = 32;
inline constexpr size_t kMaxNameBytes = 4096;
inline constexpr size_t kMaxTensors = 65535;

struct TensorShape {
  DType dtype = DType::kUint8;
  std::vector<int64_t> dims;
};

// Elements of a tensor; 1 for a scalar.
uint64_t element_count(std::span<const int64_t> dims);

struct Signature {
  OpKind kind = OpKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  int32_t root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  Place place = Place::kCpu;
  std::vector<TensorShape> tensors;
  std::vector<int32_t> numbers;  // kCreateSet: the ranks; kDestroySet, kConfirmSet: id and outcome
};

// Bytes of all tensors together.
uint64_t signature_bytes(const Signature& signature);

// Canonical bytes: free first dimensions are written as -1.
void encode(const Signature& signature, Bytes& out);
// The same, written piecewise by the submit path without building a Signature.
class SignatureWriter {
 public:
  SignatureWriter(Bytes& out, OpKind kind, ReduceOp op, int32_t root, double prescale,
                  double postscale, size_t tensor_count, Place place = Place::kCpu);
  void tensor(DType dtype, std::span<const int64_t> dims);
  void numbers(std::span<const int32_t> values);  // once, last

 private:
  ByteWriter writer_;
  bool free_first_;
};

// False if the bytes are no signature.
bool decode(std::span<const std::byte> bytes, Signature* out);

// Texts such as "float32", "[2, 3]", "sum", each per member; explains the first aspect in which
// members differ: `dtype differs: rank 0 float32, rank 3 float16`. `who` are ranks of the job,
// parallel to `signatures`.
std::string explain_difference(std::span<const Signature> signatures, std::span<const int> who);

std::string shape_text(std::span<const int64_t> dims);

}  // namespace hvd::negotiation
