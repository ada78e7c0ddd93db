// SPDX-License-Identifier: Apache-2.0
#include "packing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace bench {

using hvd::device::Kernels;
using hvd::gpu::Bytes;

namespace {

// PyTorch's allocator begins tensors at multiples of the first, the library's buffer at multiples
// of the second.
constexpr size_t kSpreadAlignment = 512;
constexpr size_t kPackedAlignment = 16;

size_t aligned(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

Bytes pattern(size_t bytes, uint32_t seed) {
  Bytes made(aligned(bytes, sizeof seed));
  for (size_t at = 0; at < made.size(); at += sizeof seed) {
    seed = seed * 1'664'525 + 1'013'904'223;
    std::memcpy(made.data() + at, &seed, sizeof seed);
  }
  made.resize(bytes);
  return made;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A convolution without bias and its batch normalization.
void add_convolution(Sizes* sizes, size_t in, size_t out, size_t kernel) {
  sizes->insert(sizes->end(), {in * out * kernel * kernel, out, out});
}

}  // namespace

Sizes resnet50() {
  Sizes sizes;
  add_convolution(&sizes, 3, 64, 7);
  size_t in = 64;
  size_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      add_convolution(&sizes, in, width, 1);
      add_convolution(&sizes, width, width, 3);
      add_convolution(&sizes, width, 4 * width, 1);
      if (block == 0) add_convolution(&sizes, in, 4 * width, 1);  // beside the block
      in = 4 * width;
    }
    width *= 2;
  }
  sizes.insert(sizes.end(), {in * 1000, 1000});
  return sizes;
}

Sizes small_tensors() {
  constexpr int kTensors = 600;
  Sizes sizes;
  for (int i = 0; i < kTensors; ++i) {
    sizes.push_back(static_cast<size_t>(
        std::lround(300 * std::pow(300.0, static_cast<double>(i) / (kTensors - 1)))));
  }
  return sizes;
}

Packing::Packing(hvd::gpu::Gpu& gpu, const Kernels& kernels, const Sizes& sizes,
                 size_t element_bytes)
    : gpu_(gpu), kernels_(kernels) {
  for (const size_t elements : sizes) {
    bytes_ += elements * element_bytes;
    spread_bytes_ += aligned(elements * element_bytes, kSpreadAlignment);
    packed_bytes_ += aligned(elements * element_bytes, kPackedAlignment);
  }
  spread_ = gpu.memory(spread_bytes_);
  packed_ = gpu.memory(packed_bytes_);
  size_t from = 0;
  size_t to = 0;
  for (const size_t elements : sizes) {
    const size_t bytes = elements * element_bytes;
    into_.push_back({spread_ + from, packed_ + to, bytes});
    back_.push_back({packed_ + to, spread_ + from, bytes});
    from += aligned(bytes, kSpreadAlignment);
    to += aligned(bytes, kPackedAlignment);
  }
}

void Packing::pack() const { hvd::gpu::must(kernels_.copy(gpu_.stream(), into_)); }
void Packing::unpack() const { hvd::gpu::must(kernels_.copy(gpu_.stream(), back_)); }
void Packing::copy_each() const {
  for (const Kernels::Segment& segment : into_) gpu_.copy(segment.to, segment.from, segment.bytes);
}
void Packing::copy_all() const { gpu_.copy(packed_, spread_, bytes_); }

std::string Packing::check() {
  const Bytes spread = pattern(spread_bytes_, 1);
  Bytes packed = pattern(packed_bytes_, 2);
  gpu_.write(spread_, spread);
  gpu_.write(packed_, packed);
  pack();
  for (const Kernels::Segment& segment : into_) {
    std::memcpy(packed.data() + (static_cast<unsigned char*>(segment.to) - packed_),
                spread.data() + (static_cast<const unsigned char*>(segment.from) - spread_),
                segment.bytes);
  }
  if (gpu_.read(packed_, packed_bytes_) != packed) return "what is packed differs";
  Bytes back = pattern(spread_bytes_, 3);
  gpu_.write(spread_, back);
  unpack();
  for (const Kernels::Segment& segment : back_) {
    const auto at = static_cast<size_t>(static_cast<unsigned char*>(segment.to) - spread_);
    std::memcpy(back.data() + at, spread.data() + at, segment.bytes);
  }
  return gpu_.read(spread_, spread_bytes_) == back ? "" : "what is unpacked differs";
}

std::vector<Times> measure(const hvd::gpu::Gpu& gpu, const Plan& plan,
                           const std::vector<std::function<void()>>& ways) {
  using Clock = std::chrono::steady_clock;
  for (const auto& way : ways) {
    double warm = gpu.milliseconds(way);  // of the device
    while (warm < plan.warm_up_ms) warm += gpu.milliseconds(way);
  }
  std::vector<std::vector<double>> times(ways.size());
  std::vector<std::vector<double>> queueing(ways.size());
  for (int repeat = 0; repeat < plan.repeats; ++repeat) {
    for (size_t w = 0; w < ways.size(); ++w) {
      Clock::duration host{};
      const double elapsed = gpu.milliseconds([&] {
        const Clock::time_point began = Clock::now();
        for (int pass = 0; pass < plan.passes; ++pass) ways[w]();
        host = Clock::now() - began;
      });
      times[w].push_back(elapsed * 1000 / plan.passes);
      queueing[w].push_back(std::chrono::duration<double, std::micro>(host).count() / plan.passes);
    }
  }
  std::vector<Times> measured;
  for (size_t w = 0; w < ways.size(); ++w) {
    measured.push_back({*std::min_element(times[w].begin(), times[w].end()), median(times[w]),
                        median(queueing[w])});
  }
  return measured;
}

}  // namespace bench
