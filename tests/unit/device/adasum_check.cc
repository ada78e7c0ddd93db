// SPDX-License-Identifier: Apache-2.0
// Adasum's kernels on one device, which has what all members have sent: compared with the vectors
// put together pair by pair.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "device/cuda/adasum.h"
#include "kernel_checks.h"

namespace hvd::gpu {

namespace {

namespace cuda = device::cuda;
using device::Kernels;
using Step = Kernels::AdasumStep;
using Vector = std::vector<double>;

constexpr size_t kAlignment = 16;
constexpr unsigned char kUntouched = 0xAB;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// By the definition: what two have in common counts once, what is orthogonal is added. A vector of
// zeros changes nothing.
Vector pair_up(const Vector& a, const Vector& b) {
  const double both = product(a, b);
  const double of_a = product(a, a) == 0 ? 1 : 1 - both / (2 * product(a, a));
  const double of_b = product(b, b) == 0 ? 1 : 1 - both / (2 * product(b, b));
  Vector sum(a.size());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

Vector adasum_of(std::vector<Vector> vectors) {
  for (size_t distance = 1; distance < vectors.size(); distance *= 2) {
    for (size_t i = 0; i + distance < vectors.size(); i += 2 * distance) {
      vectors[i] = pair_up(vectors[i], vectors[i + distance]);
    }
  }
  return vectors[0];
}

// What the members have sent of some tensors, one after another, and the tables for the kernels.
template <class T>
class Sent {
 public:
  Sent(Gpu& gpu, unsigned members, const std::vector<size_t>& sizes)
      : gpu_(gpu), members_(members) {
    for (const size_t size : sizes) {
      at_.push_back(stride_);
      sizes_.push_back(size);
      stride_ = aligned(stride_ + size * sizeof(T));
    }
    std::mt19937 random(members);
    std::normal_distribution<double> normal(0.1, 1.0);
    Bytes all(stride_ * members);
    vectors_.resize(sizes.size());
    for (unsigned m = 0; m < members; ++m) {
      for (size_t t = 0; t < sizes.size(); ++t) {
        Vector& vector = vectors_[t].emplace_back();
        for (size_t i = 0; i < sizes[t]; ++i) {
          T number;
          cuda::store_number(
              m == 1 && t == 0 ? 0 : static_cast<decltype(cuda::as_number(T{}))>(normal(random)),
              &number);
          std::memcpy(&all[m * stride_ + at_[t] + i * sizeof(T)], &number, sizeof number);
          vector.push_back(static_cast<double>(cuda::as_number(number)));
        }
      }
    }
    place(all);
  }

  // A segment of each tensor; what lies before and behind is another table's.
  cuda::AdasumTable table(const std::vector<size_t>& begin, const std::vector<size_t>& end) const {
    cuda::AdasumTable table = whole_;
    for (size_t t = 0; t < sizes_.size(); ++t) {
      if (begin[t] == end[t]) continue;
      const unsigned segment = table.segments++;
      const size_t bytes = (end[t] - begin[t]) * sizeof(T);
      table.tensor[segment] = static_cast<uint32_t>(t);
      table.at[segment] = static_cast<uint32_t>(at_[t] + begin[t] * sizeof(T));
      table.bytes[segment] = static_cast<uint32_t>(bytes);
      table.first_chunk[segment + 1] =
          table.first_chunk[segment] +
          static_cast<uint32_t>((bytes + cuda::kChunkBytes - 1) / cuda::kChunkBytes);
    }
    return table;
  }
  const cuda::AdasumTable& whole() const { return whole_; }

  std::string compare(double tolerance) const {
    const Bytes found = gpu_.read(whole_.to, stride_ + kAlignment);
    for (size_t t = 0; t < sizes_.size(); ++t) {
      const Vector expected = adasum_of(vectors_[t]);
      for (size_t i = 0; i < sizes_[t]; ++i) {
        T number;
        std::memcpy(&number, &found[at_[t] + i * sizeof(T)], sizeof number);
        const auto value = static_cast<double>(cuda::as_number(number));
        if (std::fabs(value - expected[i]) <= tolerance) continue;
        return "tensor " + std::to_string(t) + ", element " + std::to_string(i) + " of " +
               std::to_string(sizes_[t]) + " is " + std::to_string(value) + " instead of " +
               std::to_string(expected[i]);
      }
      const size_t end = at_[t] + sizes_[t] * sizeof(T);
      const size_t next = t + 1 < at_.size() ? at_[t + 1] : found.size();
      if (!std::all_of(&found[end], found.data() + next,
                       [](unsigned char byte) { return byte == kUntouched; })) {
        return "something was written behind tensor " + std::to_string(t);
      }
    }
    return "";
  }

 private:
  // Room for the sums of as many chunks as all tensors have, and one more of each.
  void place(const Bytes& all) {
    const size_t chunks = stride_ / cuda::kChunkBytes + 2 * sizes_.size();
    const size_t products = sizes_.size() * members_ * members_;
    whole_.sent = gpu_.memory(all);
    whole_.stride = stride_;
    whole_.to = gpu_.memory(Bytes(stride_ + kAlignment, kUntouched));
    const size_t sums = std::max(products, chunks * cuda::pairs_of(members_) * cuda::kThreads);
    whole_.sums = reinterpret_cast<double*>(gpu_.memory(sums * sizeof(double)));
    whole_.products =
        reinterpret_cast<double*>(gpu_.memory(Bytes(products * sizeof(double), 0x3F)));
    whole_.weights =
        reinterpret_cast<double*>(gpu_.memory(sizes_.size() * members_ * sizeof(double)));
    whole_.members = members_;
    whole_.tensors = static_cast<uint32_t>(sizes_.size());
  }

  Gpu& gpu_;
  const unsigned members_;
  size_t stride_ = 0;
  std::vector<size_t> at_, sizes_;
  std::vector<std::vector<Vector>> vectors_;  // [tensor][member]
  cuda::AdasumTable whole_{};
};

template <class T>
std::string check(Gpu& gpu, const Kernels& kernels, DType dtype, unsigned members,
                  double tolerance) {
  constexpr size_t kChunk = cuda::kChunkBytes / sizeof(T);
  const std::vector<size_t> sizes = {1000, 3 * kChunk + 77, 1, 300};
  const Sent<T> sent(gpu, members, sizes);
  // One tensor has segments in two tables.
  const std::vector<size_t> cut = {1000, 2 * kChunk + 40, 1, 0};
  const cuda::AdasumTable tables[] = {sent.table({0, 0, 0, 0}, cut), sent.table(cut, sizes)};
  const auto run = [&](Step step, const cuda::AdasumTable& table) {
    must(kernels.adasum(gpu.stream(), step, dtype, table));
  };
  run(Step::kClearProducts, sent.whole());
  for (const cuda::AdasumTable& table : tables) {
    for (const Step step : {Step::kMultiply, Step::kAddThreads, Step::kAddChunks}) run(step, table);
  }
  run(Step::kWeigh, sent.whole());
  for (const cuda::AdasumTable& table : tables) run(Step::kCombine, table);
  const std::string wrong = sent.compare(tolerance);
  gpu.release();
  if (wrong.empty()) return "";
  return std::string("Adasum of ") + dtype_name(dtype) + ", " + std::to_string(members) +
         " members: " + wrong;
}

}  // namespace

std::string check_adasum(Gpu& gpu, const Kernels& kernels) {
  for (const unsigned members : {2U, 3U, 8U}) {
    for (std::string wrong : {check<cuda::Float16>(gpu, kernels, DType::kFloat16, members, 5e-3),
                              check<cuda::Bfloat16>(gpu, kernels, DType::kBfloat16, members, 4e-2),
                              check<float>(gpu, kernels, DType::kFloat32, members, 3e-6),
                              check<double>(gpu, kernels, DType::kFloat64, members, 1e-13)}) {
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

}  // namespace hvd::gpu
