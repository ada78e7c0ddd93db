// SPDX-License-Identifier: Apache-2.0
// Modules and kernels of the stand-in: whatever has been loaded, its kernels are those of
// core/device/cuda, run thread by thread.
#include <cstring>

#include "device/cuda/adasum.h"
#include "device/cuda/bodies.h"
#include "fake_cuda_memory.h"
#include "fake_cuda_world.h"

using namespace fake_cuda;
using hvd::device::cuda::AdasumTable;
using hvd::device::cuda::Table;
using hvd::device::cuda::Thread;

struct CUmod_st {
  int device;
};

// What a stream does when it gets to the kernel with these arguments.
struct CUfunc_st {
  const char* name;
  std::function<void(std::unique_lock<std::mutex>&)> (*prepared)(const char* name,
                                                                 const void* arguments,
                                                                 unsigned blocks, unsigned threads);
};

namespace {

// Where the host finds the memory; nullptr if there is none of that size.
unsigned char* resolve(const void* memory, size_t bytes) {
  if (is_locked(memory, bytes)) return static_cast<unsigned char*>(const_cast<void*>(memory));
  return reinterpret_cast<unsigned char*>(find_memory(memory, bytes));
}

// The arguments with the host's addresses in place of the device's; whether there is such memory.
bool resolve_all(Table* table) {
  for (uint32_t i = 0; i < table->segments; ++i) {
    table->from[i] = resolve(table->from[i], table->bytes[i]);
    table->to[i] = resolve(table->to[i], table->bytes[i]);
    if (table->from[i] == nullptr || table->to[i] == nullptr) return false;
  }
  return true;
}

bool resolve_all(AdasumTable* table) {
  const size_t n = table->members;
  const auto number = [](double* memory, size_t count) {
    return reinterpret_cast<double*>(resolve(memory, count * sizeof(double)));
  };
  const size_t sums = table->segments == 0
                          ? table->tensors * n * n
                          : table->first_chunk[table->segments] * n * (n + 1) / 2 * 256;
  table->sums = number(table->sums, sums);
  table->products = number(table->products, table->tensors * n * n);
  table->weights = number(table->weights, table->tensors * n);
  bool found = table->sums != nullptr && table->products != nullptr && table->weights != nullptr;
  if (table->segments == 0) return found;
  table->sent = resolve(table->sent, n * table->stride);
  table->to = resolve(table->to, table->stride);
  for (uint32_t i = 0; i < table->segments; ++i)
    found &= uint64_t{table->at[i]} + table->bytes[i] <= table->stride;
  return found && table->sent != nullptr && table->to != nullptr;
}

template <class Arguments, void (*body)(const Arguments&, Thread)>
std::function<void(std::unique_lock<std::mutex>&)> prepared(const char* name, const void* arguments,
                                                            unsigned blocks, unsigned threads) {
  return [=, table = *static_cast<const Arguments*>(arguments)](
             std::unique_lock<std::mutex>& held) mutable {
    if (!resolve_all(&table)) {
      world().faults.insert(std::string(name) + " of freed memory, or beyond its end");
      return;
    }
    held.unlock();
    for (unsigned block = 0; block < blocks; ++block) {
      for (unsigned index = 0; index < threads; ++index) body(table, {block, index});
    }
    held.lock();
  };
}

namespace kernel {
using namespace hvd::device::cuda;
#define HVD_KERNEL(name, Arguments, body) \
  void name(const Arguments& table, Thread thread) { body(table, thread); }
#include "device/cuda/kernels.def"
#undef HVD_KERNEL
}  // namespace kernel

CUfunc_st functions[] = {
#define HVD_KERNEL(name, Arguments, body) {#name, &prepared<Arguments, &kernel::name>},
#include "device/cuda/kernels.def"
#undef HVD_KERNEL
};

}  // namespace

extern "C" {

int cuModuleLoadData(CUmod_st** module, const void*) {
  const Lock lock(mutex);
  if (const int error = enter("cuModuleLoadData"); error != 0) return error;
  *module = new CUmod_st{current.back()->device};
  ++world().modules;
  return 0;
}

int cuModuleUnload(CUmod_st* module) {
  const Lock lock(mutex);
  if (const int error = enter("cuModuleUnload"); error != 0) return error;
  delete module;
  --world().modules;
  return 0;
}

int cuModuleGetFunction(CUfunc_st** function, CUmod_st*, const char* name) {
  const Lock lock(mutex);
  if (const int error = enter("cuModuleGetFunction", name); error != 0) return error;
  for (CUfunc_st& one : functions) {
    if (std::strcmp(one.name, name) == 0) *function = &one;
  }
  return *function == nullptr ? kNotFound : 0;
}

int cuLaunchKernel(CUfunc_st* function, unsigned blocks, unsigned, unsigned, unsigned threads,
                   unsigned, unsigned, unsigned, CUstream_st* stream, void** arguments, void**) {
  const Lock lock(mutex);
  if (const int error =
          enter("cuLaunchKernel", std::string(function->name) + " " + known_as(stream));
      error != 0)
    return error;
  put(stream_of(stream), function->prepared(function->name, arguments[0], blocks, threads));
  return 0;
}

}  // extern "C"
