// SPDX-License-Identifier: Apache-2.0
#include "kernel_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "kernels/reduce.h"

namespace hvd::gpu {

namespace {

using device::Kernels;
using Segment = Kernels::Segment;

Bytes noise(std::mt19937& random, size_t bytes) {
  Bytes made(bytes);
  for (unsigned char& byte : made) byte = static_cast<unsigned char>(random());
  return made;
}

std::string difference(const std::string& what, const Bytes& found, const Bytes& expected) {
  const auto at = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  if (at.first == found.end() && at.second == expected.end()) return "";
  return what + ": byte " + std::to_string(at.first - found.begin()) + " of " +
         std::to_string(found.size()) + " is " + std::to_string(*at.first) + " instead of " +
         std::to_string(*at.second);
}

size_t aligned(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Pieces at any distance from each other, in memory of source and target, that begin at multiples
// of the alignment.
class Layout {
 public:
  Layout(std::mt19937& random, const std::vector<size_t>& sizes, size_t alignment) {
    for (const size_t size : sizes) {
      in_ = aligned(in_, alignment) + random() % 20 * alignment;
      out_ = aligned(out_, alignment) + random() % 20 * alignment;
      pieces_.push_back({in_, out_, size});
      in_ += size;
      out_ += size;
    }
  }
  size_t source_bytes() const { return in_ + 64; }
  size_t target_bytes() const { return out_ + 64; }
  std::vector<Segment> segments(const unsigned char* from, unsigned char* to) const {
    std::vector<Segment> segments;
    for (const Piece& piece : pieces_)
      segments.push_back({from + piece.in, to + piece.out, piece.bytes});
    return segments;
  }
  Bytes copied(const Bytes& source, Bytes target) const {
    for (const Piece& piece : pieces_)
      std::copy_n(source.data() + piece.in, piece.bytes, target.data() + piece.out);
    return target;
  }

 private:
  struct Piece {
    size_t in;
    size_t out;
    size_t bytes;
  };
  std::vector<Piece> pieces_;
  size_t in_ = 0;
  size_t out_ = 0;
};

// Whatever NaN became of it is one NaN.
void same_nans(DType dtype, Bytes* bytes) {
  if (dtype_size(dtype) == 1) return;
  for (size_t at = 0; at < bytes->size(); at += dtype_size(dtype)) {
    unsigned char* one = bytes->data() + at;
    const unsigned upper = one[dtype_size(dtype) - 1] & 0x7f;
    const unsigned next = one[dtype_size(dtype) - 2];
    bool nan = false;
    if (dtype == DType::kFloat16) nan = upper > 0x7c || (upper == 0x7c && next != 0);
    if (dtype == DType::kBfloat16) nan = upper == 0x7f && next > 0x80;
    float narrow = 0;
    double wide = 0;
    if (dtype == DType::kFloat32) std::memcpy(&narrow, one, sizeof narrow);
    if (dtype == DType::kFloat64) std::memcpy(&wide, one, sizeof wide);
    if (nan || std::isnan(narrow) || std::isnan(wide)) std::memset(one, 0xff, dtype_size(dtype));
  }
}

// Around the steps of a thread, of 1, 4 and 16 bytes; four of them by each thread of a block; and a
// block's share.
std::vector<size_t> sizes_of_copies(std::mt19937& random) {
  std::vector<size_t> sizes = {0, 1, 3, 4, 15, 16, 17, 4096, 16'384, 100'000};
  for (const size_t step : {16, 4, 1}) {
    for (const size_t steps : {1, 3, 4, 5}) {
      const size_t block = steps * 256 * step;
      sizes.insert(sizes.end(), {block - step, block, block + step});
    }
    sizes.insert(sizes.end(), {32'768 - step, 32'768, 32'768 + step, 65'536 + step});
  }
  for (int i = 0; i < 300; ++i) sizes.push_back(random() % 200);
  return sizes;
}

std::string check_copy(Gpu& gpu, const Kernels& kernels, size_t alignment) {
  std::mt19937 random(7);
  const Layout layout(random, sizes_of_copies(random), alignment);
  const Bytes source = noise(random, layout.source_bytes());
  const Bytes before = noise(random, layout.target_bytes());
  const unsigned char* from = gpu.memory(source);
  unsigned char* to = gpu.memory(before);
  must(kernels.copy(gpu.stream(), layout.segments(from, to)));
  const Bytes found = gpu.read(to, before.size());
  gpu.release();
  return difference("copy at steps of " + std::to_string(alignment) + " bytes", found,
                    layout.copied(source, before));
}

// Elements from the second on, into memory that begins otherwise between two steps of 16 bytes; and
// in place.
std::string check_product(Gpu& gpu, const Kernels& kernels, DType dtype, double factor,
                          const Bytes& source) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), " times %.17g", factor);
  const std::string what = dtype_name(dtype) + std::string(text.data());
  const size_t element = dtype_size(dtype);
  const size_t bytes = source.size() - 3 * element;
  Bytes expected(source.size(), 0xAB);
  kernels::scale(dtype, expected.data() + 2 * element, source.data() + element, bytes / element,
                 factor);
  const unsigned char* from = gpu.memory(source);
  unsigned char* to = gpu.memory(Bytes(source.size(), 0xAB));
  must(kernels.scale(gpu.stream(), dtype,
                     std::vector<Segment>{{from + element, to + 2 * element, bytes}}, factor));
  Bytes found = gpu.read(to, source.size());
  same_nans(dtype, &expected);
  same_nans(dtype, &found);
  if (std::string wrong = difference(what, found, expected); !wrong.empty()) return wrong;

  Bytes all(source.size());
  kernels::scale(dtype, all.data(), source.data(), source.size() / element, factor);
  unsigned char* both = gpu.memory(source);
  must(kernels.scale(gpu.stream(), dtype, std::vector<Segment>{{both, both, source.size()}},
                     factor));
  found = gpu.read(both, source.size());
  same_nans(dtype, &all);
  same_nans(dtype, &found);
  gpu.release();
  return difference(what + " in place", found, all);
}

}  // namespace

std::string check_copies(Gpu& gpu, const Kernels& kernels) {
  for (const size_t alignment : {1, 4, 16}) {
    if (std::string wrong = check_copy(gpu, kernels, alignment); !wrong.empty()) return wrong;
  }
  return "";
}

std::string check_products(Gpu& gpu, const Kernels& kernels, DType dtype) {
  // All values of the small types.
  std::mt19937 random(7);
  Bytes source = noise(random, 2 * 65'536);
  for (size_t i = 0; dtype_size(dtype) <= 2 && i < 65'536; ++i) {
    const auto value = static_cast<uint16_t>(i);
    std::memcpy(source.data() + 2 * i, &value, sizeof value);
  }
  for (const double factor :
       {1.0 / 3, 0.25, 0.3, -2.5, 1e-30, 1e30, 65'536.0, std::nextafter(1.0 / 3, 1.0)}) {
    if (std::string wrong = check_product(gpu, kernels, dtype, factor, source); !wrong.empty())
      return wrong;
  }
  return "";
}

std::string check_graph(Gpu& gpu, const Kernels& kernels, int mode) {
  std::mt19937 random(7);
  std::vector<size_t> sizes;
  for (int i = 0; i < 200; ++i)
    sizes.push_back(random() % (i % 10 == 0 ? 30'000 : 3000) * sizeof(float));
  const Layout layout(random, sizes, 16);
  const size_t bytes = layout.target_bytes();
  const Bytes zeros(bytes, 0);
  unsigned char* from = gpu.memory(noise(random, layout.source_bytes()));
  unsigned char* packed = gpu.memory(zeros);
  unsigned char* halves = gpu.memory(zeros);
  const std::string what = "graph of mode " + std::to_string(mode);
  bool refused = false;
  const Graph graph(gpu, mode, [&] {
    refused = !gpu.device().check_stream(gpu.stream()).ok();
    must(kernels.copy(gpu.stream(), layout.segments(from, packed)));
    must(kernels.scale(gpu.stream(), DType::kInt32, std::vector<Segment>{{packed, halves, bytes}},
                       0.5));
  });
  if (!refused) return what + ": the stream is not seen to capture";
  if (std::string wrong =
          difference(what + ", before it is launched", gpu.read(packed, bytes), zeros);
      !wrong.empty()) {
    return wrong;
  }
  for (int launch = 1; launch <= 4; ++launch) {
    const Bytes source = noise(random, layout.source_bytes());
    gpu.write(from, source);
    graph.launch();
    const Bytes expected = layout.copied(source, zeros);
    Bytes half(bytes);
    kernels::scale(DType::kInt32, half.data(), expected.data(), bytes / sizeof(int32_t), 0.5);
    const std::string when = what + ", launch " + std::to_string(launch);
    if (std::string wrong = difference(when, gpu.read(packed, bytes), expected); !wrong.empty())
      return wrong;
    if (std::string wrong = difference(when + ", product", gpu.read(halves, bytes), half);
        !wrong.empty())
      return wrong;
  }
  gpu.release();
  return "";
}

}  // namespace hvd::gpu
