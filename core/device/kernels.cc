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
#define HVD_KERNEL(name, body) #name,
#include "device/cuda/kernels.def"
#undef HVD_KERNEL
};
enum : int { kCopy, kUint8, kInt8, kInt32, kInt64, kFloat16, kBfloat16, kFloat32, kFloat64, kNone = -1 };

int scaling_kernel(DType dtype) {
  switch (dtype) {
    case DType::kUint8: return kUint8;
    case DType::kInt8: return kInt8;
    case DType::kInt32: return kInt32;
    case DType::kInt64: return kInt64;
    case DType::kFloat16: return kFloat16;
    case DType::kBfloat16: return kBfloat16;
    case DType::kFloat32: return kFloat32;
    case DType::kFloat64: return kFloat64;
    default: return kNone;
  }
}

Status unsupported(const std::string& why) { return Status(Code::kUnsupported, why); }

// The parts that fit into one launch; the others stay.
cuda::Table table_of(std::span<const Kernels::Part>* parts) {
  cuda::Table table{};
  uint32_t chunks = 0;
  while (!parts->empty() && table.parts < cuda::kParts) {
    const Kernels::Part& part = parts->front();
    *parts = parts->subspan(1);
    if (part.bytes == 0) continue;
    const uint32_t index = table.parts++;
    table.from[index] = static_cast<const unsigned char*>(part.from);
    table.to[index] = static_cast<unsigned char*>(part.to);
    table.bytes[index] = part.bytes;
    table.first_chunk[index] = chunks;
    chunks += static_cast<uint32_t>((part.bytes + cuda::kChunkBytes - 1) / cuda::kChunkBytes);
  }
  table.first_chunk[table.parts] = chunks;
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
  const std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (image.empty()) return unsupported(from + " can not be read, or is empty");
  return find_functions(image.data());
}

// All functions at once: one that is loaded at its first call would wait for kernels that wait for other ranks.
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

Status Kernels::copy(StreamHandle stream, std::span<const Part> parts) const { return launch(stream, kCopy, parts, 1.0); }

Status Kernels::scale(StreamHandle stream, DType dtype, std::span<const Part> parts, double factor) const {
  return launch(stream, scaling_kernel(dtype), parts, factor);
}

Status Kernels::launch(StreamHandle stream, int kernel, std::span<const Part> parts, double factor) const {
  const Device::Scope scope(device_);
  while (!parts.empty()) {
    cuda::Table table = table_of(&parts);
    const unsigned blocks = table.first_chunk[table.parts];
    if (blocks == 0) continue;
    table.factor = factor;
    table.divisor = whole_divisor(factor);
    void* arguments[] = {&table};
    FunctionHandle function = functions_[kernel];
    HVD_TRY(check(calls().launch(function, blocks, 1, 1, cuda::kThreads, 1, 1, 0, stream, arguments, nullptr), kNames[kernel]));
  }
  return {};
}

}  // namespace hvd::device
