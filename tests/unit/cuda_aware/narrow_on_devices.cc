// SPDX-License-Identifier: Apache-2.0
// As if it were a CUDA-aware MPI: it reads and writes memory of the stand-in's devices.
// HVD_TEST_MPI says how it fails.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "conformance/backends/narrow_backend.h"
#include "unit/device/fake_cuda.h"
#include "unit/device/fake_cuda_memory.h"

namespace narrow {

namespace {

bool asked_to(std::string_view what) {
  const char* asked = std::getenv("HVD_TEST_MPI");
  return asked != nullptr && asked == what;
}

}  // namespace

const char kName[] = "mpi";

std::byte* find(const void* memory) {
  std::byte* const there = fake_cuda::find_memory(memory, 1);
  return there != nullptr ? there : static_cast<std::byte*>(const_cast<void*>(memory));
}

bool serves(const hvd::backend::plugin::Request& request) {
  if (request.on_device == 0) return true;
  const int current = fake_cuda::current_device();
  const auto of_it = [&](const void* memory) {
    const int device = fake_cuda::device_of(memory);
    return device < 0 || device == current;  // memory of the host may come too
  };
  return current >= 0 && of_it(request.in) && of_it(request.out);
}

bool fails() { return asked_to("fail on device 0") && fake_cuda::current_device() == 0; }

int32_t takes_device_memory(const hvd::backend::plugin::Settings*, hvd::backend::plugin::Text why) {
  if (!asked_to("is not aware")) return 0;
  std::snprintf(why.data, why.size, "narrow is not CUDA-aware");
  return -5;
}

}  // namespace narrow
