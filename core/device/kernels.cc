// SPDX-License-Identifier: Apache-2.0
#include "device/kernels.h"

#include <fstream>
#include <iterator>
#include <vector>

#include "base/integer_scale.h"
#include "device/image.h"

namespace hvd::device {

namespace {

// In the order of kernels.def.
constexpr const char* kNames[] = {
#define HVD_KERNEL(name, Arguments, body) #name,
#include "device/cuda/kernels.def"
#undef HVD_KERNEL
};
enum : int {
#define HVD_KERNEL(name, Arguments, body) k_##name,
#include "device/cuda/kernels.def"
#undef HVD_KERNEL
  kNone = -1
};

int scaling_kernel(DType dtype) {
  switch (dtype) {
    case DType::kUint8: return k_hvd_scale_uint8;
    case DType::kInt8: return k_hvd_scale_int8;
    case DType::kInt32: return k_hvd_scale_int32;
    case DType::kInt64: return k_hvd_scale_int64;
    case DType::kFloat16: return k_hvd_scale_float16;
    case DType::kBfloat16: return k_hvd_scale_bfloat16;
    case DType::kFloat32: return k_hvd_scale_float32;
    case DType::kFloat64: return k_hvd_scale_float64;
    default: return kNone;
  }
}

// The first of four kernels in a row.
int floating_kernel(int first, DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return first;
    case DType::kBfloat16: return first + 1;
    case DType::kFloat32: return first + 2;
    default: return first + 3;
  }
}

Status unsupported(const std::string& why) { return Status(Code::kUnsupported, why); }

// The segments that fit into one launch; the others stay.
cuda::Table table_of(std::span<const Kernels::Segment>* segments) {
  cuda::Table table{};
  uint32_t chunks = 0;
  while (!segments->empty() && table.segments < cuda::kSegments) {
    const Kernels::Segment& segment = segments->front();
    *segments = segments->subspan(1);
    if (segment.bytes == 0) continue;
    const uint32_t index = table.segments++;
    table.from[index] = static_cast<const unsigned char*>(segment.from);
    table.to[index] = static_cast<unsigned char*>(segment.to);
    table.bytes[index] = segment.bytes;
    table.first_chunk[index] = chunks;
    chunks += static_cast<uint32_t>((segment.bytes + cuda::kChunkBytes - 1) / cuda::kChunkBytes);
  }
  table.first_chunk[table.segments] = chunks;
  return table;
}

}  // namespace

Result<std::unique_ptr<Kernels>> Kernels::load(const Device& device, const std::string& from) {
  std::unique_ptr<Kernels> kernels(new Kernels(device));
  HVD_TRY(kernels->read(from));
  return kernels;
}

Status Kernels::read(const std::string& from) {
  if (from == "none") return unsupported("cuda_kernels is none");
  if (from == "auto") {
    if (kernel_image().empty()) return unsupported("this library has been built without nvcc");
    return find_functions(kernel_image().data());
  }
  std::ifstream file(from, std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (image.empty()) return unsupported(from + " can not be read, or is empty");
  image.push_back('\0');  // PTX ends with it
  return find_functions(image.data());
}

// Loads all functions at once: loading a function at its first call would wait for kernels that
// wait for other ranks.
Status Kernels::find_functions(const void* image) {
  const Device::Scope scope(device_);
  const auto refuse = [](const Status& why) { return why.ok() ? why : unsupported(why.message()); };
  HVD_TRY(refuse(check(calls().load_module(&module_, image), "cuModuleLoadData")));
  for (int i = 0; i < kKernels; ++i)
    HVD_TRY(refuse(check(calls().get_function(&functions_[i], module_, kNames[i]), kNames[i])));
  return {};
}

Kernels::~Kernels() {
  if (module_ == nullptr || device_.forked()) return;
  const Device::Scope scope(device_);
  calls().unload_module(module_);
}

bool Kernels::scales(DType dtype) { return scaling_kernel(dtype) != kNone; }

Status Kernels::copy(StreamHandle stream, std::span<const Segment> segments) const {
  return apply(stream, k_hvd_copy, segments, 1.0);
}

Status Kernels::scale(StreamHandle stream, DType dtype, std::span<const Segment> segments,
                      double factor) const {
  return apply(stream, scaling_kernel(dtype), segments, factor);
}

Status Kernels::apply(StreamHandle stream, int kernel, std::span<const Segment> segments,
                      double factor) const {
  while (!segments.empty()) {
    cuda::Table table = table_of(&segments);
    table.factor = factor;
    table.divisor = whole_divisor(factor);
    HVD_TRY(launch(stream, kernel, table.first_chunk[table.segments], &table));
  }
  return {};
}

Status Kernels::adasum(StreamHandle stream, AdasumStep step, DType dtype,
                       cuda::AdasumTable table) const {
  const auto blocks_of = [](uint64_t threads) {
    return static_cast<unsigned>((threads + cuda::kThreads - 1) / cuda::kThreads);
  };
  const uint64_t n = table.members;
  const unsigned chunks = table.first_chunk[table.segments];
  const uint64_t pairs = n * (n + 1) / 2;
  switch (step) {
    case AdasumStep::kClearProducts:
      return launch(stream, k_hvd_adasum_clear_products, blocks_of(table.tensors * n * n), &table);
    case AdasumStep::kMultiply:
      return launch(stream, floating_kernel(k_hvd_adasum_multiply_float16, dtype),
                    static_cast<unsigned>(chunks * pairs), &table);
    case AdasumStep::kAddThreads:
      return launch(stream, k_hvd_adasum_add_threads, blocks_of(chunks * pairs), &table);
    case AdasumStep::kAddChunks:
      return launch(stream, k_hvd_adasum_add_chunks, blocks_of(table.segments * pairs), &table);
    case AdasumStep::kWeigh:
      return launch(stream, k_hvd_adasum_weigh, blocks_of(table.tensors), &table);
    case AdasumStep::kCombine:
      return launch(stream, floating_kernel(k_hvd_adasum_combine_float16, dtype), chunks, &table);
  }
  return {};
}

Status Kernels::launch(StreamHandle stream, int kernel, unsigned blocks, void* table) const {
  if (blocks == 0) return {};
  const Device::Scope scope(device_);
  void* arguments[] = {table};
  FunctionHandle function = functions_[kernel];
  return check(
      calls().launch(function, blocks, 1, 1, cuda::kThreads, 1, 1, 0, stream, arguments, nullptr),
      kNames[kernel]);
}

}  // namespace hvd::device
