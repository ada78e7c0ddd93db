// SPDX-License-Identifier: Apache-2.0
// Modules and kernels of the stand-in: whatever has been loaded, its kernels are those of core/device/cuda, run thread by thread.
#include <cstring>

#include "device/cuda/bodies.h"
#include "fake_cuda_memory.h"
#include "fake_cuda_world.h"

using namespace fake_cuda;
using hvd::device::cuda::Table;
using hvd::device::cuda::Thread;

struct CUmod_st {
  int device;
};

struct CUfunc_st {
  const char* name;
  void (*run)(const Table& table, Thread thread);
};

namespace {

namespace kernel {
using namespace hvd::device::cuda;
#define HVD_KERNEL(name, body) \
  void name(const Table& table, Thread thread) { body(table, thread); }
#include "device/cuda/kernels.def"
#undef HVD_KERNEL
}  // namespace kernel

CUfunc_st functions[] = {
#define HVD_KERNEL(name, body) {#name, &kernel::name},
#include "device/cuda/kernels.def"
#undef HVD_KERNEL
};

// Where the host finds the memory; nullptr if there is none of that size.
unsigned char* resolve(const void* memory, size_t bytes) {
  if (is_locked(memory, bytes)) return static_cast<unsigned char*>(const_cast<void*>(memory));
  return reinterpret_cast<unsigned char*>(find_memory(memory, bytes));
}

// The arguments with the host's addresses in place of the device's; what is wrong with them, or nothing.
std::string resolve_all(Table* table) {
  for (uint32_t i = 0; i < table->parts; ++i) {
    table->from[i] = resolve(table->from[i], table->bytes[i]);
    table->to[i] = resolve(table->to[i], table->bytes[i]);
    if (table->from[i] == nullptr || table->to[i] == nullptr) return " of freed memory, or beyond its end";
  }
  return "";
}

void run_grid(const CUfunc_st& function, const Table& table, unsigned blocks, unsigned threads) {
  for (unsigned block = 0; block < blocks; ++block) {
    for (unsigned index = 0; index < threads; ++index) function.run(table, {block, index});
  }
}

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

int cuLaunchKernel(CUfunc_st* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                   CUstream_st* stream, void** arguments, void**) {
  const Lock lock(mutex);
  if (const int error = enter("cuLaunchKernel", std::string(function->name) + " " + known_as(stream)); error != 0) return error;
  put(stream_of(stream), [=, table = *static_cast<const Table*>(arguments[0])](std::unique_lock<std::mutex>& held) {
    Table here = table;
    if (const std::string wrong = resolve_all(&here); !wrong.empty()) {
      world().faults.insert(function->name + wrong);
      return;
    }
    held.unlock();
    run_grid(*function, here, blocks, threads);
    held.lock();
  });
  return 0;
}

}  // extern "C"
